//! A watcher that comes back after every cut and goes on where it was.

use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

/// What a subscriber saw, in the order it saw it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Sandbox and event id of every posted event.
    pub(crate) events: Vec<(String, String)>,
    /// How often it had to come back.
    pub(crate) reconnects: u64,
    last_position: i64,
}

/// The type of the event that ends a watch: it is written after everything else.
pub(crate) const MARKER: &str = "test.marker";

/// Watches everything until the marker comes by.
pub(crate) async fn watch(url: String, token: String, stop: CancellationToken) -> Seen {
    let mut seen = Seen::default();
    while !stop.is_cancelled() {
        let address = format!(
            "{}/api/v1/ws/events?token={token}&entity_types=sandbox&after={}",
            url.replacen("http", "ws", 1),
            seen.last_position
        );
        if let Ok((mut socket, _)) = tokio_tungstenite::connect_async(&address).await {
            loop {
                let next = tokio::select! {
                    next = tokio::time::timeout(Duration::from_millis(500), socket.next()) => next,
                    () = stop.cancelled() => return seen,
                };
                match next {
                    Ok(Some(Ok(Message::Text(text)))) => {
                        if note(&mut seen, &text) == Noted::Marker {
                            return seen;
                        }
                    }
                    Ok(Some(Ok(_))) => {}
                    Ok(Some(Err(_)) | None) => break,
                    Err(_) => {}
                }
            }
            seen.reconnects += 1;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    seen
}

#[derive(PartialEq)]
enum Noted {
    Other,
    Marker,
}

fn note(seen: &mut Seen, text: &str) -> Noted {
    let Ok(frame) = serde_json::from_str::<Value>(text) else { return Noted::Other };
    let Some(position) = frame["position"].as_i64() else { return Noted::Other };
    seen.last_position = position;
    let field = |name: &str| frame[name].as_str().unwrap_or_default();
    match field("event_type").strip_prefix("SANDBOX_") {
        Some("agent.message") => seen.events.push((field("entity_id").to_owned(), field("id").to_owned())),
        Some(MARKER) => return Noted::Marker,
        _ => {}
    }
    Noted::Other
}
