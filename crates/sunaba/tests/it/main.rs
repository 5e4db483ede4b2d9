//! The program as its users meet it: the built binary, real processes, real sockets.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

mod agents;
mod at_once;
mod backup;
mod config;
mod continuous;
/// The kit's own file, without the server that the rest of the kit is built with.
#[path = "../../../sunaba-testkit/src/docker.rs"]
#[expect(unreachable_pub, reason = "the file is public in the kit")]
mod daemon;
mod deploy;
mod deploy_compose;
mod deploy_image;
mod docker;
mod docker_kit;
mod docker_remote;
mod docker_tls;
mod egress_question;
mod end_to_end;
mod installation;
#[path = "../shared/leavings.rs"]
mod leavings;
mod lost_nodes;
mod migrate;
mod migrate_killed;
mod mixed_versions;
mod node_status;
mod node_walls;
mod orderly_end;
mod postgres;
mod questions;
mod redis_tls;
mod refusals;
mod sandboxes;
mod serve;
mod sessions;
mod setup;
mod steps;
mod support;
mod tokens;
mod two_nodes;
