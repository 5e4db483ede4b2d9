//! What makes sandboxes.
//!
//! [`Provider`] is the port: prepare, start, watch, kill and delete isolated
//! machines. [`LocalProvider`] makes them on this host with bubblewrap, each
//! held by a detached shim that outlives the server.

pub mod cgroup;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod disk;
mod docker;
mod local;
pub mod probe;
pub mod process;
mod provider;
pub mod seccomp;

pub use docker::{DockerOptions, DockerProvider};
pub use local::{FoundProgram, GROUPS_FILE, Keeping, LocalOptions, LocalProvider, UID_RANGE, find_inside};
pub use probe::find_bubblewrap;
pub use provider::{
    CreateRequest, Error, ExecRequest, ExecResult, HostPlaces, Prepared, Provider, Report, StartRequest,
    Status,
};
pub use sunaba_types::Isolation;
pub use sunaba_types::shim::{Bind, Exit, Held, Layer, Limits, ResourceUse};
