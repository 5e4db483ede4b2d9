//! A subscriber that comes back after every break, to either server, and goes on where it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::StreamExt as _;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use super::door::Door;
use super::writer::fingerprint;

/// The sandbox and the type of the event that ends every watch: it is written after everything else.
pub(super) const MARKER: &str = "marker";
pub(super) const MARKER_TYPE: &str = "test.marker";

/// How long a connection may take to open.
const OPENS: Duration = Duration::from_secs(5);

/// What came over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) position: i64,
    pub(super) entity_id: String,
    pub(super) event_type: String,
    pub(super) id: String,
    /// Of the payload.
    pub(super) fingerprint: u64,
}

/// What a subscriber asks for.
#[derive(Debug, Clone)]
pub(super) enum Filter {
    Everything,
    /// Events of these sandboxes.
    Entities(Vec<String>),
    /// Events of these types, as they are published.
    Types(Vec<String>),
}

impl Filter {
    /// Whether it lets an event through: the marker too.
    pub(super) fn lets(&self, frame: &Frame) -> bool {
        match self {
            Self::Everything => true,
            Self::Entities(ids) => frame.entity_id == MARKER || ids.contains(&frame.entity_id),
            Self::Types(types) => {
                frame.event_type == published(MARKER_TYPE) || types.contains(&frame.event_type)
            }
        }
    }

    fn query(&self) -> String {
        match self {
            Self::Everything => String::new(),
            Self::Entities(ids) => format!("&entity_ids={},{MARKER}", ids.join(",")),
            Self::Types(types) => format!("&event_types={},{}", types.join(","), published(MARKER_TYPE)),
        }
    }
}

/// The name under which a posted event is published.
pub(super) fn published(event_type: &str) -> String {
    format!("SANDBOX_{event_type}")
}

/// When a subscriber leaves by itself, besides the breaks that it suffers.
#[derive(Clone)]
pub(super) enum Leaves {
    Never,
    /// After at most so many frames, for as long as somebody wants more of it.
    Often {
        after_at_most: u64,
        still_wanted: Arc<AtomicU64>,
    },
}

/// One subscriber.
pub(super) struct Watcher {
    pub(super) door: Door,
    pub(super) filter: Filter,
    pub(super) seed: u64,
    pub(super) leaves: Leaves,
    /// The only server it goes to, if not either.
    pub(super) only: Option<usize>,
}

/// What a subscriber saw, in the order it saw it.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) frames: Vec<Frame>,
    /// How often it had to come back.
    pub(super) reconnects: u64,
}

/// Why a connection is over.
enum Left {
    Broken,
    Marker,
}

impl Watcher {
    /// Watches from the beginning until the marker comes by.
    pub(super) async fn watch(self, stop: CancellationToken) -> anyhow::Result<(Filter, Seen)> {
        let mut random = StdRng::seed_from_u64(self.seed);
        let mut seen = Seen::default();
        loop {
            let once = self.once(&mut seen, &mut random);
            tokio::select! {
                left = once => if let Left::Marker = left? { return Ok((self.filter, seen)) },
                () = stop.cancelled() => return Ok((self.filter, seen)),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// One connection to one server.
    async fn once(&self, seen: &mut Seen, random: &mut StdRng) -> anyhow::Result<Left> {
        let node = self.only.unwrap_or_else(|| random.random_range(0..2));
        let after = seen.frames.last().map_or(0, |frame| frame.position);
        let url = self.door.urls[node].replacen("http", "ws", 1);
        let query = self.filter.query();
        let address = format!("{url}/api/v1/ws/events?token={}&after={after}{query}", self.door.token);
        let opened = tokio::time::timeout(OPENS, tokio_tungstenite::connect_async(&address)).await;
        let Ok(Ok((mut socket, _))) = opened else { return Ok(Left::Broken) };
        if after > 0 {
            seen.reconnects += 1;
        }
        let mut stay = self.stay(random);
        while stay > 0 {
            let Some(Ok(message)) = socket.next().await else { return Ok(Left::Broken) };
            let Message::Text(text) = message else { continue };
            let Some(frame) = read(&text)? else { continue };
            let is_marker = frame.event_type == published(MARKER_TYPE);
            seen.frames.push(frame);
            if is_marker {
                return Ok(Left::Marker);
            }
            stay -= 1;
        }
        Ok(Left::Broken)
    }

    /// After how many frames it leaves this time.
    fn stay(&self, random: &mut StdRng) -> u64 {
        match &self.leaves {
            Leaves::Never => u64::MAX,
            Leaves::Often { after_at_most, still_wanted } => {
                let one_less = |wanted: u64| wanted.checked_sub(1);
                match still_wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
                    Ok(_) => random.random_range(1..=*after_at_most),
                    Err(_) => u64::MAX,
                }
            }
        }
    }
}

/// A published event, or nothing if the server says something else.
fn read(text: &str) -> anyhow::Result<Option<Frame>> {
    let frame: Value = serde_json::from_str(text)?;
    // One that is not ready, or whose store is away while it looks at the token, says so and closes.
    let said = frame["error"].as_str().unwrap_or_default();
    let is_passing = said.starts_with("not ready") || said.starts_with("the store is not available");
    ensure!(frame["error"].is_null() || is_passing, "the server says {text}");
    let Some(position) = frame["position"].as_i64() else { return Ok(None) };
    let word =
        |name: &str| frame[name].as_str().map(str::to_owned).with_context(|| format!("{name}: {text}"));
    Ok(Some(Frame {
        position,
        entity_id: word("entity_id")?,
        event_type: word("event_type")?,
        id: frame["id"].as_str().unwrap_or_default().to_owned(),
        fingerprint: fingerprint(&frame["payload"]),
    }))
}
