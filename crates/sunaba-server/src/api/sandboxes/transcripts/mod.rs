//! Conversations of a sandbox's agents: kept as blobs, served from their own routes, never part of the log.

pub(crate) mod fetch;
pub(crate) mod list;
pub(crate) mod put;
