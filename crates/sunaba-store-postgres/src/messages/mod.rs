//! Messages: queueing, handing over, acknowledging, and their fate.
//!
//! Handing over looks first and writes only if something would change, so a
//! worker that polls an empty queue costs no commit. Everything about a sandbox's
//! messages is changed under the lock of its log.

use async_trait::async_trait;
use sunaba_store::{MessageStore, Queued, Result, TakeMode, Writer};
use sunaba_store_sql::draft::overdue_at;
use sunaba_types::{Message, MessageId, NewMessage, SandboxId};

use crate::PostgresStore;
use crate::fault::told;
use crate::page::{InTime as _, gather, in_time};
use crate::rows::{all, list};

/// Selects whole messages (`m`).
macro_rules! message_query {
    ($tail:tt $(, $arg:expr)* $(,)?) => {
        sqlx::query_as!(
            sunaba_store_sql::rows::MessageRow,
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
pub(crate) use queue::insert_message;
use take::{HandOver, Offer, Take};

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
