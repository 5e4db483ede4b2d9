//! The host and what it can do.

pub(crate) mod backup;
pub(crate) mod isolation;
pub(crate) mod lost;
pub(crate) mod status;
