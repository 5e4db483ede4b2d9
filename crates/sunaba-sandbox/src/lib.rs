//! What makes sandboxes.
//!
//! [`Provider`] is the port: prepare, start, watch, kill and delete isolated
//! machines. [`LocalProvider`] makes them on this host with bubblewrap, each
//! held by a detached shim that outlives the server.

mod local;
pub mod process;
mod provider;

pub use local::{LocalOptions, LocalProvider, UID_RANGE, find_bubblewrap};
pub use provider::{
    CreateRequest, Error, ExecRequest, ExecResult, HostPlaces, Prepared, Provider, Report, StartRequest,
    Status,
};
pub use sunaba_types::Isolation;
pub use sunaba_types::shim::{Bind, Exit, Held, Layer, Limits, ResourceUse};
