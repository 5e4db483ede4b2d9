//! Providers against the real thing: a container daemon that the test run starts for itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod conformance;
mod container_walls;
mod containers;
/// The kit's own file, without the server that the rest of the kit is built with.
#[path = "../../../sunaba-testkit/src/docker.rs"]
#[expect(unreachable_pub, reason = "the file is public in the kit")]
mod daemon;
mod support;
