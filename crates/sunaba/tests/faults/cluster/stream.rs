//! Somebody who follows one sandbox's log over SSE and goes on at either server after the last event it saw.

use std::time::Duration;

use anyhow::{Context, bail};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use super::door::Door;

/// The type of the event that ends it: nothing is written to the sandbox after it.
pub(super) const LAST: &str = "test.last";

/// How long an answer may take to begin.
const OPENS: Duration = Duration::from_secs(5);

/// One event of a stream: its `id:` and its `data:`.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) id: i64,
    pub(super) data: Value,
}

/// Who follows which log.
pub(super) struct Follower {
    pub(super) door: Door,
    pub(super) sandbox: String,
    pub(super) seed: u64,
    /// It leaves by itself after at most so many events, so that it meets both servers.
    pub(super) stays_for: usize,
}

/// What it saw, in the order it saw it.
#[derive(Debug, Default)]
pub(super) struct Followed {
    pub(super) sandbox: String,
    pub(super) lines: Vec<Line>,
    /// How often it had to come back.
    pub(super) reconnects: u64,
}

impl Follower {
    /// Follows from the beginning to the last event.
    pub(super) async fn follow(self) -> anyhow::Result<Followed> {
        let mut random = StdRng::seed_from_u64(self.seed);
        let mut followed = Followed { sandbox: self.sandbox.clone(), ..Followed::default() };
        loop {
            self.once(&mut followed, &mut random).await?;
            if followed.lines.last().is_some_and(|line| line.data["event_type"] == LAST) {
                return Ok(followed);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// One stream of one server, for as long as it lasts.
    async fn once(&self, followed: &mut Followed, random: &mut StdRng) -> anyhow::Result<()> {
        let api = self.door.api(random.random_range(0..2));
        let stays_for = random.random_range(1..=self.stays_for);
        let url = format!("{}/api/v1/sandboxes/{}/events/stream", api.url, self.sandbox);
        let mut request = api.client.get(url).bearer_auth(&api.token);
        if let Some(last) = followed.lines.last() {
            request = request.header("last-event-id", last.id.to_string());
        }
        let Ok(Ok(mut answer)) = tokio::time::timeout(OPENS, request.send()).await else { return Ok(()) };
        match answer.status().as_u16() {
            200 => {}
            503 => return Ok(()),
            // Its writer has not begun.
            404 if followed.lines.is_empty() => return Ok(()),
            status => bail!("{}: {status} {}", self.sandbox, answer.text().await.unwrap_or_default()),
        }
        if !followed.lines.is_empty() {
            followed.reconnects += 1;
        }
        let leave_at = followed.lines.len() + stays_for;
        let mut text = Vec::new();
        while let Ok(Some(piece)) = answer.chunk().await {
            text.extend_from_slice(&piece);
            while let Some(end) = text.windows(2).position(|two| two == b"\n\n") {
                let block: Vec<u8> = text.drain(..end + 2).collect();
                let Some(line) = read(&String::from_utf8(block)?)? else { continue };
                let is_last = line.data["event_type"] == LAST;
                followed.lines.push(line);
                if is_last || followed.lines.len() >= leave_at {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// An event, or nothing if the server only says that it is still there.
fn read(block: &str) -> anyhow::Result<Option<Line>> {
    let of = |name: &'static str| {
        block.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    let Some(id) = of("id").next() else { return Ok(None) };
    let data: Vec<&str> = of("data").collect();
    let data = serde_json::from_str(&data.join("\n")).with_context(|| block.to_owned())?;
    Ok(Some(Line { id: id.parse()?, data }))
}
