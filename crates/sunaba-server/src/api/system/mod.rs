//! The host and what it can do.

pub(crate) mod isolation;
