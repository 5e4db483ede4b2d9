//! What runs in a sandbox, and the shim that holds a local one.
//!
//! One program with five parts, from the host inwards:
//! - [`shim`] is the detached parent of one sandbox and keeps its records;
//! - [`launch`] gives up every privilege and becomes bubblewrap;
//! - [`guest`] is the first program inside: it keeps the bridge alive and runs the command;
//! - [`bridge`] carries connections to the server's socket and holds them while the server is away;
//! - [`work`] is the worker: it drives the agent and reports.

pub mod bridge;
pub mod guest;
pub mod launch;
pub mod shim;
pub mod work;
