//! Events that cause nothing, written in one statement.
//!
//! Nearly all events are of this kind, and what they depend on is nearly always remembered ([`Recent`]). Their
//! places, hashes and counts are worked out from that in memory; the statement (`append_events`) writes them if
//! the database still says the same and otherwise nothing. It is a transaction of its own. Whoever does not know
//! whether it happened may therefore try the other way, which finds out: the statement never comes after that.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use sunaba_engine::may_cause;
use sunaba_store::{Append, AppendOutcome, FeedEntry};
use sunaba_store_sql::draft::{Draft, NewFeedRow, OnMessages, Taken};
use sunaba_types::ProjectId;
use tokio::time::timeout;

use super::columns::{EventColumns, LogColumns, TurnColumns, TypeColumns};
use super::flush_rows::columns;
use super::recent::Versions;
use super::{Recent, Terms};
use crate::Durability;
use crate::fault::{Trouble, trouble};
use crate::open::CHANNEL;
use crate::writer::Context;

/// A statement that takes this long hangs: the server gives it two seconds.
const HANGS_AFTER: Duration = Duration::from_secs(4);

/// See the module.
pub(crate) struct Plain {
    draft: Draft,
    versions: Versions,
    /// The last hashes that the logs had, in the order of their ids.
    known_hashes: Vec<Vec<u8>>,
    terms: Terms,
    recent: Arc<Recent>,
    teller: Arc<str>,
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
        let mut draft = Draft::new(context.clock.now());
        let versions = context.recent.recall(appends.clone().map(|append| &append.sandbox_id), &mut draft)?;
        let known_hashes = draft.sandboxes.values().map(|known| known.log.last_hash.to_vec()).collect();
        let outcomes: Option<Vec<_>> = appends.map(|append| take_in(&mut draft, append)).collect();
        let moved = |draft: &Draft| draft.sandboxes.values().all(|known| known.log_changed);
        let outcomes = outcomes.filter(|_| draft.is_plain() && moved(&draft))?;
        let (recent, teller) = (Arc::clone(&context.recent), Arc::clone(&context.teller));
        Some((Self { draft, versions, known_hashes, terms: context.terms, recent, teller }, outcomes))
    }

    /// Writes it; gives what was published, in order.
    pub(crate) async fn commit(mut self, pool: &PgPool) -> Result<Vec<FeedEntry>, Unwritten> {
        let mut connection = pool.acquire().await.map_err(|_| Unwritten::Refused)?;
        let written = timeout(HANGS_AFTER, self.write(&mut connection)).await;
        match written {
            Ok(Ok(())) => {
                self.recent.keep(&mut self.draft, &self.versions);
                Ok(std::mem::take(&mut self.draft.published))
            }
            Ok(Err(error)) if trouble(&error) != Trouble::Outage => {
                tracing::debug!(%error, "events go the long way");
                Err(Unwritten::Refused)
            }
            Ok(Err(_)) | Err(_) => {
                connection.close_on_drop();
                Err(Unwritten::Unknown)
            }
        }
    }

    async fn write(&mut self, connection: &mut sqlx::PgConnection) -> Result<(), sqlx::Error> {
        let tasks = TaskColumns::of(&self.draft);
        let (rows, feed) = (std::mem::take(&mut self.draft.events), std::mem::take(&mut self.draft.feed));
        let events = EventColumns::of(&rows);
        let types = TypeColumns::take(&mut self.draft);
        let turns = TurnColumns::take(&mut self.draft);
        let logs = LogColumns::take(&mut self.draft);
        let opened = columns(std::mem::take(&mut self.draft.noisy_opened));
        let closed = columns(std::mem::take(&mut self.draft.noisy_closed));
        let (projects, names) = feed_columns(&feed);
        let [last_seq, heartbeats, story, noise, type_count, noisy, _] = &logs.numbers;
        let [turn, turn_first, turn_last, started, ended, tools, errors, edits, messages] = &turns.numbers;
        let position = sqlx::query_scalar!(
            r#"SELECT append_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                                    $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34,
                                    $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48, $49,
                                    $50)
               AS "position!""#,
            self.terms.known_layout,
            self.terms.durability == Durability::Required,
            CHANNEL,
            &*self.teller,
            &logs.sandbox_id,
            &self.known_hashes,
            last_seq,
            &logs.last_hash,
            heartbeats,
            &logs.first_heartbeat as &[Option<i64>],
            &logs.last_heartbeat as &[Option<i64>],
            story,
            noise,
            type_count,
            noisy,
            &logs.alive_until as &[Option<i64>],
            &logs.open_turn as &[Option<String>],
            &tasks.id,
            &tasks.attempt,
            &tasks.status as &[&str],
            &types.sandbox_id,
            &types.event_type,
            &turns.sandbox_id,
            turn,
            turn_first,
            turn_last,
            started,
            ended,
            tools,
            errors,
            edits,
            messages,
            &opened.0,
            &opened.1,
            &closed.0,
            &closed.1,
            &events.sandbox_id as &[&str],
            &events.seq,
            &events.event_id as &[&str],
            &events.event_type as &[&str],
            &events.type_seq,
            &events.source as &[&str],
            &events.class,
            &events.created_at,
            &events.payload as &[&[u8]],
            &events.payload_hash as &[&[u8]],
            &events.hash as &[&[u8]],
            &events.step as &[Option<&str>],
            &projects as &[Option<&str>],
            &names as &[&str]
        )
        .fetch_one(connection)
        .await?;
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

/// Tasks by column, as they are remembered.
#[derive(Debug, Default)]
struct TaskColumns {
    id: Vec<String>,
    attempt: Vec<i64>,
    status: Vec<&'static str>,
}

impl TaskColumns {
    /// In the order of their ids, in which everybody locks them.
    fn of(draft: &Draft) -> Self {
        let mut tasks: Vec<_> = draft.tasks.values().map(|task| &task.row).collect();
        tasks.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        let mut columns = Self::default();
        for task in tasks {
            columns.id.push(task.id.to_string());
            columns.attempt.push(task.attempt);
            columns.status.push(task.status.as_str());
        }
        columns
    }
}

/// The project and the name under which each event is published.
fn feed_columns(rows: &[NewFeedRow]) -> (Vec<Option<&str>>, Vec<&str>) {
    rows.iter().map(|row| (row.project_id.as_ref().map(ProjectId::as_str), row.event_type.as_str())).unzip()
}
