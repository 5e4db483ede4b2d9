//! The worker: drives the agent and reports.
//!
//! Heartbeat, reporting and message receiving live on a thread of their own, so
//! that nothing the agent does can silence them. The agent's thread only writes
//! to the spool. At the end, however the agent ended, its work is committed and
//! pushed before the end is told.

mod agent;
mod clone;
pub mod config;
mod continuous;
mod courier;
mod heartbeat;
mod http;
mod inbox;
mod messages;
mod native;
mod questions;
mod quiet;
pub mod report;
mod repository;
mod resumption;
mod rounds;
mod session;
mod sink;
mod steps;
mod told;
mod upkeep;

use std::process::ExitCode;

use anyhow::Context as _;

use self::config::Identity;

/// Does the work that the environment describes.
pub fn run() -> anyhow::Result<ExitCode> {
    let lookup = |name: &str| std::env::var(name).ok();
    let identity = Identity::read(&lookup).context("cannot report to a server")?;
    let succeeded = session::run(&identity, &lookup)?;
    Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
