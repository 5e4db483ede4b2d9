//! Events that cause nothing, written in one statement.
//!
//! Nearly all events are of this kind, and what they depend on is nearly always remembered ([`Recent`]). Their
//! places, hashes and counts are worked out from that in memory; the statement (`append_rows`) writes them if
//! the database still says the same and otherwise nothing. It is a transaction of its own. Whoever does not know
//! whether it happened may therefore try the other way, which finds out: the statement never comes after that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sunaba_engine::may_cause;
use sunaba_store::{Append, AppendOutcome, FeedEntry};
use sunaba_store_sql::draft::{Draft, OnMessages, Taken};
use sunaba_types::chain::Hash;
use tokio::time::timeout;

use super::recent::Versions;
use super::written::{KnownTask, WrittenEntry, WrittenEvent, WrittenLog, WrittenName, WrittenTurn};
use super::{Recent, Terms};
use crate::Durability;
use crate::fault::{Trouble, trouble};
use crate::lines::Lines;
use crate::open::CHANNEL;
use crate::writer::Context;

/// A statement that takes this long hangs: the server gives it two seconds.
const HANGS_AFTER: Duration = Duration::from_secs(4);

/// See the module.
pub(crate) struct Plain {
    draft: Draft,
    versions: Versions,
    /// The last hashes that the logs had, in the order of their ids.
    known_hashes: Vec<Hash>,
    terms: Terms,
    recent: Arc<Recent>,
    teller: Arc<str>,
    /// Where it is told, if anybody may listen.
    channel: Option<&'static str>,
}

/// Why it was not written this way.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// It was not, and the other way may do it.
    Refused,
    /// Nobody knows.
    Unknown,
}

impl Plain {
    /// Works out what is to be written; none if any of it is not remembered, or more than events is to be written.
    pub(crate) fn plan<'a>(
        context: &Context,
        appends: impl Iterator<Item = &'a Append> + Clone,
    ) -> Option<(Self, Vec<Vec<AppendOutcome>>)> {
        // Asked first: what was recalled is gone if it turns out not to be plain.
        if appends.clone().flat_map(|append| &append.events).any(|event| may_cause(&event.event_type)) {
            return None;
        }
        let mut draft = Draft::new(context.clock.now(), context.legacy_silence_seconds);
        let versions = context.recent.recall(appends.clone().map(|append| &append.sandbox_id), &mut draft)?;
        let known_hashes = draft.sandboxes.values().map(|known| known.log.last_hash).collect();
        let outcomes: Option<Vec<_>> = appends.map(|append| take_in(&mut draft, append)).collect();
        let moved = |draft: &Draft| draft.sandboxes.values().all(|known| known.log_changed);
        let outcomes = outcomes.filter(|_| draft.is_plain() && moved(&draft))?;
        let (recent, teller) = (Arc::clone(&context.recent), Arc::clone(&context.teller));
        let channel = context.others.may_listen(Instant::now()).then_some(CHANNEL);
        let terms = context.terms;
        Some((Self { draft, versions, known_hashes, terms, recent, teller, channel }, outcomes))
    }

    /// Writes it; gives what was published, in order.
    pub(crate) async fn commit(mut self, lines: &Arc<Lines>) -> Result<Vec<Arc<FeedEntry>>, Unwritten> {
        let mut line = lines.take().await.map_err(|_| Unwritten::Refused)?;
        let written = timeout(HANGS_AFTER, self.write(&mut line)).await;
        match written {
            Ok(Ok(())) => {
                line.rest();
                self.recent.keep(&mut self.draft, &self.versions);
                Ok(std::mem::take(&mut self.draft.published))
            }
            Ok(Err(error)) if trouble(&error) != Trouble::Outage => {
                tracing::debug!(%error, "events go the long way");
                line.rest();
                Err(Unwritten::Refused)
            }
            Ok(Err(_)) | Err(_) => Err(Unwritten::Unknown),
        }
    }

    async fn write(&mut self, connection: &mut sqlx::PgConnection) -> Result<(), sqlx::Error> {
        let draft = &mut self.draft;
        let (rows, feed) = (std::mem::take(&mut draft.events), std::mem::take(&mut draft.feed));
        let (events, entries) = (WrittenEvent::all(&rows), WrittenEntry::all(&feed));
        let tasks = std::mem::take(&mut draft.tasks);
        let known_tasks = KnownTask::all(tasks.values().map(|task| &task.row));
        let (types, turns) = (WrittenName::take_types(draft), WrittenTurn::take(draft));
        let opened = WrittenName::all(std::mem::take(&mut draft.noisy_opened));
        let closed = WrittenName::all(std::mem::take(&mut draft.noisy_closed));
        let logs = WrittenLog::take_known(draft, &self.known_hashes);
        let position = sqlx::query_scalar!(
            r#"SELECT append_rows($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) AS "position!""#,
            self.terms.known_layout,
            self.terms.durability == Durability::Required,
            self.channel,
            &*self.teller,
            &logs as &[WrittenLog<'_>],
            &known_tasks as &[KnownTask<'_>],
            &types as &[WrittenName],
            &turns as &[WrittenTurn],
            &opened as &[WrittenName],
            &closed as &[WrittenName],
            &events as &[WrittenEvent<'_>],
            &entries as &[WrittenEntry<'_>]
        )
        .fetch_one(connection)
        .await?;
        self.draft.tasks = tasks;
        self.draft.published(feed, position);
        Ok(())
    }
}

/// Takes the events of one request in; none if one is refused or has to do with messages.
fn take_in(draft: &mut Draft, append: &Append) -> Option<Vec<AppendOutcome>> {
    let outcome = |event| match draft.take_in(&append.sandbox_id, append.writer, event) {
        Taken::Done(Ok(appended)) => Some(Ok(appended)),
        Taken::Recorded(appended, OnMessages::Nothing) => {
            draft.follow(&append.sandbox_id, event);
            Some(Ok(appended))
        }
        Taken::Done(Err(_)) | Taken::Recorded(..) => None,
    };
    append.events.iter().map(outcome).collect()
}
