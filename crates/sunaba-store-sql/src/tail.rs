//! The feed's last entries, as far as this process wrote them itself.
//!
//! Whoever follows the feed asks for what was committed a moment ago. The writer still has it in its hands;
//! asking the database would cost it as much as the writing did. Positions have no gaps, so an entry that is
//! held and follows the asked position is the next one, whoever else writes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sunaba_store::{FeedEntry, PAGE_BYTES};

/// How many entries are held.
const ENTRIES: usize = 4096;
/// How many bytes of payloads are held: never more than one page may have.
const BYTES: usize = 4 * 1024 * 1024;
const _: () = assert!(BYTES <= PAGE_BYTES);

/// See the module.
#[derive(Debug, Default)]
pub struct Tail(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    entries: BTreeMap<i64, Arc<FeedEntry>>,
    bytes: usize,
}

impl Tail {
    /// Holds entries that were just committed.
    pub fn keep(&self, entries: Vec<Arc<FeedEntry>>) {
        let mut held = self.held();
        for entry in entries {
            held.bytes += entry.payload_bytes();
            if let Some(replaced) = held.entries.insert(entry.position, entry) {
                held.bytes -= replaced.payload_bytes();
            }
        }
        while (held.entries.len() > ENTRIES || held.bytes > BYTES)
            && let Some((_, oldest)) = held.entries.pop_first()
        {
            held.bytes -= oldest.payload_bytes();
        }
    }

    /// Forgets what lies beyond the feed's end: a database that was restored to an earlier moment does not have it.
    pub fn forget_after(&self, end: i64) {
        let mut held = self.held();
        let beyond = held.entries.split_off(&end.saturating_add(1));
        held.bytes -= beyond.values().map(|entry| entry.payload_bytes()).sum::<usize>();
    }

    /// What follows a position without a gap, at most `limit` entries. None when the next one is not held; the
    /// database knows whether there is one.
    pub fn after(&self, position: i64, limit: u32) -> Option<Vec<Arc<FeedEntry>>> {
        let held = self.held();
        let next = position.checked_add(1)?;
        let following = held.entries.range(next..).zip(next..).take(limit as usize);
        let page: Vec<_> = following
            .take_while(|((at, _), next)| *at == next)
            .map(|((_, entry), _)| Arc::clone(entry))
            .collect();
        (!page.is_empty()).then_some(page)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // What is held stays right when somebody panics: entries are put in whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use sunaba_store::PublishedPayload;
    use sunaba_types::{EventPayload, Timestamp};

    use super::*;

    fn entry(position: i64, length: usize) -> FeedEntry {
        let text = format!(r#"{{"a":"{}"}}"#, "x".repeat(length));
        FeedEntry {
            position,
            project_id: None,
            event_type: "TASK_CREATED".to_owned(),
            entity_type: "task".into(),
            entity_id: "t".to_owned(),
            sandbox_id: None,
            id: format!("feed-{position}"),
            seq: None,
            payload: PublishedPayload::Notice(EventPayload::from_stored(text).unwrap()),
            created_at: Timestamp::UNIX_EPOCH,
        }
    }

    fn tail(positions: impl IntoIterator<Item = i64>, length: usize) -> Tail {
        let tail = Tail::default();
        positions.into_iter().for_each(|position| tail.keep(vec![Arc::new(entry(position, length))]));
        tail
    }

    fn positions(tail: &Tail, after: i64, limit: u32) -> Option<Vec<i64>> {
        Some(tail.after(after, limit)?.iter().map(|entry| entry.position).collect())
    }

    #[test]
    fn it_answers_only_what_follows_without_a_gap() {
        let tail = tail([5, 6, 9, 7], 1);
        assert_eq!(positions(&tail, 4, 10), Some(vec![5, 6, 7]));
        assert_eq!(positions(&tail, 4, 2), Some(vec![5, 6]));
        assert_eq!(positions(&tail, 8, 10), Some(vec![9]));
        for unknown in [0, 3, 7, 9, i64::MAX] {
            assert_eq!(positions(&tail, unknown, 10), None, "after {unknown}");
        }
    }

    #[test]
    fn what_is_replaced_or_beyond_the_end_leaves_nothing() {
        let tail = tail([1, 2, 3, 3], 1);
        tail.forget_after(2);
        assert_eq!(positions(&tail, 0, 10), Some(vec![1, 2]));
        let bytes: usize = tail.after(0, 10).unwrap().iter().map(|entry| entry.payload_bytes()).sum();
        assert_eq!(tail.held().bytes, bytes);
    }

    #[test]
    fn the_oldest_go_first() {
        let many = tail(1..=i64::try_from(ENTRIES).unwrap() + 2, 1);
        assert_eq!(positions(&many, 1, 1), None);
        assert_eq!(positions(&many, 2, 1), Some(vec![3]));
        let large = tail(1..=5, BYTES / 4);
        assert_eq!(positions(&large, 1, 1), None);
        assert_eq!(positions(&large, 2, 1), Some(vec![3]));
    }
}
