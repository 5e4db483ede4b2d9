//! Compares what clients were told with what the servers show. It asks nobody and knows nothing else.

mod logs;
mod messages;
mod places;
mod runs;

pub(super) use logs::{feed, log, stream, subscriber};
pub(super) use messages::{inbox, polled, to_runs};
pub(super) use places::{Place, places};
pub(super) use runs::{begun, heard, one_at_a_time, runs};

/// A checker that finds nothing must be one that would: every check is given what it must complain of.
#[cfg(test)]
#[track_caller]
fn finds(found: anyhow::Result<()>, what: &str) {
    let error = format!("{:#}", found.expect_err("it must not pass"));
    assert!(error.contains(what), "{error}");
}
