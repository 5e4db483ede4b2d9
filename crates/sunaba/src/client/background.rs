//! Starts a server in the background when `run` finds none, and waits until it is ready.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use super::http::Client;
use super::place::{Holder, Place, holder};
use crate::failure::{Failure, Outcome};
use crate::output;

/// Where a background server writes its log.
const LOG_FILE: &str = "serve.log";
/// How long it may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How often it is asked.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// How much of its log is shown when it dies.
const TAIL_LINES: usize = 15;

/// A client for the server of this place; one is started if none is running and the place is a directory.
pub(crate) async fn ensure_server(place: &Place) -> Outcome<Client> {
    let found = super::place::connect(place).await;
    match (found, place) {
        (Err(Failure::Unreachable(_)), Place::DataDir { dir, .. }) => {
            output::note(&format!(
                "starting a server for {}; it stays up, and `{}` ends it",
                dir.display(),
                crate::commands::hint(Some(dir), "serve --stop")
            ));
            let mut server = start(dir, &["--detach-session"])?;
            wait_ready(place, dir, &mut server).await
        }
        (found, _) => found,
    }
}

/// Starts `sunaba serve` on a data directory, its log going to a file there.
pub(crate) fn start(dir: &Path, more: &[&str]) -> Outcome<Child> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(log_file(dir))?;
    let program = std::env::current_exe()?;
    let child = Command::new(program)
        .arg("serve")
        .arg("--data")
        .arg(dir)
        .args(more)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    Ok(child)
}

/// Waits until the server is ready; if it dies, the failure shows the end of its log.
pub(crate) async fn wait_ready(place: &Place, dir: &Path, server: &mut Child) -> Outcome<Client> {
    let started_at = log_size(dir);
    let deadline = Instant::now() + READY_WITHIN;
    let mut last = "it has not announced itself".to_owned();
    while Instant::now() < deadline {
        if let Ok(client) = place.client() {
            match client.readiness().await {
                Ok(()) => return Ok(client),
                Err(why) => last = why,
            }
        }
        // Who started one at the same moment and came first serves this client as well.
        if let Some(status) = server.try_wait()?
            && holder(dir) == Holder::Nobody
        {
            return Err(died(dir, started_at, &format!("the server ended at its start ({status})")));
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
    Err(died(
        dir,
        started_at,
        &format!("the server was not ready after {} s: {last}", READY_WITHIN.as_secs()),
    ))
}

fn died(dir: &Path, started_at: u64, what: &str) -> Failure {
    let tail = tail(dir, started_at).unwrap_or_default();
    Failure::Unreachable(format!("{what}; its log, {}, ends with:\n{tail}", log_file(dir).display()))
}

fn log_file(dir: &Path) -> PathBuf {
    dir.join(LOG_FILE)
}

fn log_size(dir: &Path) -> u64 {
    std::fs::metadata(log_file(dir)).map_or(0, |file| file.len())
}

/// The last lines of the log that this start wrote.
fn tail(dir: &Path, started_at: u64) -> std::io::Result<String> {
    use std::io::{Read, Seek, SeekFrom};
    const TAIL_BYTES: u64 = 16 * 1024;
    let mut file = File::open(log_file(dir))?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(started_at.max(size.saturating_sub(TAIL_BYTES)).min(size)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    // Whoever shows this puts the program's name before it again.
    let last: Vec<&str> = last.iter().map(|line| line.strip_prefix("sunaba: ").unwrap_or(line)).collect();
    Ok(last.join("\n"))
}
