//! Messages: queueing, handing over, acknowledging, and their fate.
//!
//! Handing over looks first and writes only if something would change, so a
//! worker that polls an empty queue costs no commit. Everything about a sandbox's
//! messages is changed under the lock of its log.

use async_trait::async_trait;
use sunaba_store::{MessageStore, Queued, Result, TakeMode, Writer};
use sunaba_types::{Message, MessageId, MessageState, MessageType, NewMessage, SandboxId};

use crate::PostgresStore;
use crate::fault::{Unreadable, told};
use crate::page::{InTime as _, Weight, gather, in_time};
use crate::rows::{all, list, maybe_time, message_id, readable, time};

/// Selects whole messages (`m`).
macro_rules! message_query {
    ($tail:tt $(, $arg:expr)* $(,)?) => {
        sqlx::query_as!(
            crate::messages::MessageRow,
            r#"SELECT m.id AS "id!", m.sandbox_id AS "sandbox_id!", m.seq AS "seq!", m.content AS "content!",
                      m.message_type AS "message_type!", m.sender AS "sender!", m.state AS "state!",
                      m.created_at AS "created_at!", m.handed_over_at, m.acknowledged_at, m.consumed_at,
                      m.consumed_seq, m.reason
               FROM messages AS m "# + $tail
            $(, $arg)*
        )
    };
}

mod fate;
mod queue;
mod take;

use queue::QueueMessage;
use take::{HandOver, Offer, Take, overdue_at};

#[derive(Debug)]
pub(crate) struct MessageRow {
    id: String,
    sandbox_id: String,
    seq: i64,
    content: String,
    message_type: String,
    sender: String,
    state: String,
    created_at: i64,
    handed_over_at: Option<i64>,
    acknowledged_at: Option<i64>,
    consumed_at: Option<i64>,
    consumed_seq: Option<i64>,
    reason: Option<String>,
}

impl Weight for MessageRow {
    fn weight(&self) -> usize {
        self.content.len()
    }
}

impl TryFrom<MessageRow> for Message {
    type Error = Unreadable;

    fn try_from(row: MessageRow) -> Result<Self, Unreadable> {
        const TABLE: &str = "messages";
        let key = row.id.clone();
        Ok(Self {
            id: message_id(row.id)?,
            sandbox_id: readable(SandboxId::parse(row.sandbox_id).ok(), TABLE, "sandbox_id", &key)?,
            seq: row.seq,
            content: row.content,
            message_type: readable(MessageType::parse(&row.message_type), TABLE, "message_type", &key)?,
            sender: row.sender,
            state: readable(MessageState::parse(&row.state), TABLE, "state", &key)?,
            created_at: time(row.created_at, TABLE, "created_at", &key)?,
            handed_over_at: maybe_time(row.handed_over_at, TABLE, "handed_over_at", &key)?,
            acknowledged_at: maybe_time(row.acknowledged_at, TABLE, "acknowledged_at", &key)?,
            consumed_at: maybe_time(row.consumed_at, TABLE, "consumed_at", &key)?,
            consumed_seq: row.consumed_seq,
            reason: row.reason,
        })
    }
}

impl PostgresStore {
    /// Whether a poll would hand over or acknowledge anything.
    async fn take_would_write(&self, key: &str, mode: &TakeMode) -> Result<bool> {
        let overdue = overdue_at(self.clock.now(), mode);
        let (legacy, acknowledged) = match mode {
            TakeMode::Legacy => (true, Vec::new()),
            TakeMode::Explicit { acknowledged, .. } => {
                (false, list(acknowledged.iter().map(MessageId::as_str)))
            }
        };
        sqlx::query_scalar!(
            r#"SELECT EXISTS (
                   SELECT 1 FROM messages
                   WHERE sandbox_id = $1 AND state IN ('queued', 'handed_over') AND acknowledged_at IS NULL
                     AND (state = 'queued' OR offered_at <= $2 OR ($3::bool AND via = 'legacy')
                          OR id = ANY($4))) AS "found!""#,
            key,
            overdue,
            legacy,
            &acknowledged
        )
        .fetch_one(&self.readers)
        .in_time()
        .await
    }
}

#[async_trait]
impl MessageStore for PostgresStore {
    async fn queue_message(&self, message: NewMessage) -> Result<Queued> {
        self.writer.run(QueueMessage(message)).await
    }

    async fn take_messages(
        &self,
        sandbox_id: &SandboxId,
        by: Writer,
        mode: TakeMode,
    ) -> Result<Vec<Message>> {
        if !self.take_would_write(sandbox_id.as_str(), &mode).await? {
            self.read_standing(sandbox_id, by).await?;
            return Ok(Vec::new());
        }
        self.writer.run(Take { sandbox_id: sandbox_id.clone(), by, mode }).await
    }

    async fn offer_messages(&self, sandbox_id: &SandboxId, by: Writer) -> Result<Vec<Message>> {
        if !self.take_would_write(sandbox_id.as_str(), &TakeMode::Legacy).await? {
            self.read_standing(sandbox_id, by).await?;
            return Ok(Vec::new());
        }
        self.writer.run(Offer { sandbox_id: sandbox_id.clone(), by }).await
    }

    async fn hand_over(&self, sandbox_id: &SandboxId, by: Writer, ids: Vec<MessageId>) -> Result<()> {
        self.writer.run(HandOver { sandbox_id: sandbox_id.clone(), by, ids }).await
    }

    async fn peek_messages(&self, sandbox_id: &SandboxId) -> Result<Vec<Message>> {
        let key = sandbox_id.as_str();
        let rows = message_query!(
            "WHERE m.sandbox_id = $1 AND m.state IN ('queued', 'handed_over') AND m.acknowledged_at IS NULL
             ORDER BY m.message_type = 'interrupt' DESC, m.seq",
            key
        )
        .fetch(&self.readers);
        in_time(async {
            let (rows, _) = gather(rows).await.map_err(told)?;
            Ok(all(rows)?)
        })
        .await
    }

    async fn message_history(
        &self,
        sandbox_id: &SandboxId,
        after_seq: i64,
        limit: u32,
    ) -> Result<Vec<Message>> {
        let key = sandbox_id.as_str();
        let rows = message_query!(
            "WHERE m.sandbox_id = $1 AND m.seq > $2 ORDER BY m.seq LIMIT $3",
            key,
            after_seq,
            i64::from(limit)
        )
        .fetch(&self.readers);
        in_time(async {
            let (rows, _) = gather(rows).await.map_err(told)?;
            Ok(all(rows)?)
        })
        .await
    }

    async fn find_message(&self, id: &MessageId) -> Result<Option<Message>> {
        let key = id.as_str();
        let row = message_query!("WHERE m.id = $1", key).fetch_optional(&self.readers).in_time().await?;
        Ok(row.map(Message::try_from).transpose()?)
    }
}
