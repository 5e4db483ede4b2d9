//! What is done to a store while no server runs on it.
//!
//! Every command here takes the lock that a server would take, and refuses a database that a server of another
//! data directory still serves.

mod end;
pub(crate) mod migrate;
pub(crate) mod restore;
