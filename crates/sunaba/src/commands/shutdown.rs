//! `sunaba serve --stop`: ends the server of a data directory, in order.

use std::process::ExitCode;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::Instant;

use super::Context;
use crate::client::{Holder, Place, holder};
use crate::failure::{Failure, Outcome};
use crate::output;

/// How long stopping may take; the server gives itself 10 s.
const STOP_WITHIN: Duration = Duration::from_secs(15);
/// How often it is looked after.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Ends the server that holds the data directory; sandboxes live on.
pub(crate) async fn shutdown(context: &Context) -> Outcome {
    let Place::DataDir { dir, .. } = &context.place else {
        return Err(Failure::usage("SUNABA_URL names a server elsewhere; --data names one to stop here"));
    };
    let server = match holder(dir) {
        Holder::Server(server) => server,
        Holder::Starting => {
            return Err(Failure::other(format!("a server for {} is just starting or ending", dir.display())));
        }
        Holder::Nobody => {
            return Err(Failure::Unreachable(format!("no server is running for {}", dir.display())));
        }
    };
    let pid = i32::try_from(server.pid).ok().filter(|pid| *pid > 1);
    let pid = pid.ok_or_else(|| Failure::other(format!("{} is no process to stop", server.pid)))?;
    kill(Pid::from_raw(pid), Signal::SIGTERM)
        .map_err(|error| Failure::other(format!("cannot stop process {pid}: {error}")))?;
    let deadline = Instant::now() + STOP_WITHIN;
    while Instant::now() < deadline {
        if holder(dir) == Holder::Nobody {
            if context.json {
                output::json(&serde_json::json!({ "stopped": server }));
            } else {
                output::line(&format!("stopped the server at {} (process {pid})", server.url));
            }
            return Ok(ExitCode::SUCCESS);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err(Failure::other(format!("process {pid} did not stop within {} s", STOP_WITHIN.as_secs())))
}
