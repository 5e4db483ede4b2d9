//! The call back of a sandbox on another machine: until its tunnel is open nobody knows that it can work.

use std::time::Duration;

use sunaba_sandbox::{Provider, Status};
use sunaba_types::SandboxId;
use tokio::time::{Instant, sleep};

use crate::{Error, Parts};

/// How often it is looked.
const POLL: Duration = Duration::from_millis(100);
/// How long it may take once the sandbox runs; its bridge tries every few seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much of what a silent sandbox wrote is looked at for the reason.
const OUTPUT_MAX_BYTES: usize = 64 * 1024;
const WORDS_MAX_CHARS: usize = 300;

/// Waits for the tunnel. A sandbox that ended meanwhile is left to whoever explains ends.
pub(crate) async fn wait(parts: &Parts, provider: &dyn Provider, id: &SandboxId) -> Result<(), Error> {
    let deadline = Instant::now() + PATIENCE;
    while !is_open(parts, id).await {
        if matches!(provider.status(id).await?, Status::Exited(_)) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let output = provider.output(id, 0, OUTPUT_MAX_BYTES).await.unwrap_or_default();
            let public_url = parts.settings.public_url.as_deref().unwrap_or_default();
            return Err(Error::Missing(silence(public_url, &String::from_utf8_lossy(&output))));
        }
        sleep(POLL).await;
    }
    Ok(())
}

/// Whether its tunnel is open, here or on another node, where all that is known is that it was heard.
async fn is_open(parts: &Parts, id: &SandboxId) -> bool {
    if parts.doors.has_tunnel(id) {
        return true;
    }
    let row = parts.store.find_sandbox(id).await;
    matches!(row, Ok(Some(row)) if row.alive_until.is_some())
}

/// Says what to look at when a sandbox cannot reach the server, with the words of its bridge.
fn silence(public_url: &str, output: &str) -> String {
    let said = output.lines().rev().find(|line| line.contains("no tunnel"));
    let why = said.and_then(|line| line.split_once("error=")).map_or("no answer", |(_, why)| why);
    let why: String = why.trim().trim_matches('"').chars().take(WORDS_MAX_CHARS).collect();
    format!(
        "the sandbox cannot reach this server at {public_url} ({why}): public_url (--public-url) has to be an \
         address that leads here from the container's machine, docker.network a network that lets it through, \
         and an https certificate one that the image trusts or whose authority public_url_ca names"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_bridge_are_quoted() {
        let output =
            "started\n12:00 WARN bridge: no tunnel server=\"h:1\" error=\"no connection: refused\"\nmore\n";
        let words = silence("https://h:1", output);
        assert!(words.contains("at https://h:1 (no connection: refused): public_url"), "{words}");
        assert!(silence("https://h", "").contains("(no answer)"));
    }
}
