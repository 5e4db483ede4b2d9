//! Tokens: made, listed and revoked by an admin.

pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod revoke;
