//! Walks a log's hash chain.

use sunaba_types::chain::{GENESIS, Hash};
use sunaba_types::{SandboxId, StoredEvent};

use crate::{EventStore, LogHead, Result};

const PAGE: u32 = 128;

/// What a walk along a log found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walked {
    /// How many events are as they were written, from the first on.
    pub events: i64,
    /// The last hash that was reached.
    pub head: Hash,
    /// The first event that is not as it was written, or is missing.
    pub first_bad_seq: Option<i64>,
}

/// Recomputes the hash chain from the first event to this head. Events that arrive meanwhile belong to the next
/// walk.
pub async fn walk_chain<S: EventStore + ?Sized>(store: &S, id: &SandboxId, head: &LogHead) -> Result<Walked> {
    let (mut hash, mut seq): (Hash, i64) = (GENESIS, 0);
    let broken = |first_bad_seq, events, head| Walked { events, head, first_bad_seq: Some(first_bad_seq) };
    while seq < head.last_seq {
        let events = store.events_after(id, seq, PAGE).await?;
        if events.first().is_none_or(|event| event.seq > head.last_seq) {
            return Ok(broken(seq + 1, seq, hash));
        }
        for event in events.iter().take_while(|event| event.seq <= head.last_seq) {
            if !follows(event, seq, &hash) {
                return Ok(broken(seq + 1, seq, hash));
            }
            (hash, seq) = (event.hash, event.seq);
        }
    }
    if hash != head.last_hash {
        return Ok(broken(seq, seq, hash));
    }
    Ok(Walked { events: seq, head: hash, first_bad_seq: None })
}

fn follows(event: &StoredEvent, seq: i64, previous: &Hash) -> bool {
    event.seq == seq + 1
        && event.payload.hash() == event.payload_hash
        && event.expected_hash(previous) == event.hash
}
