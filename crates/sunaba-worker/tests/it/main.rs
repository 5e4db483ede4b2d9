//! The real program against real sockets, real files and real bubblewrap.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod adoption;
mod bridge;
mod claude;
mod closing;
mod conformance;
mod continuous;
mod egress;
mod guest;
mod isolation;
mod layers;
mod lifecycle;
mod limits;
mod probe;
mod programs;
mod remote_container;
mod root_fs;
mod seccomp;
mod server;
mod steps;
mod support;
mod trial;
mod tunnel;
mod walls;
mod work;
mod work_in_sandbox;
