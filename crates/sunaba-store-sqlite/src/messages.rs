//! Messages: queueing, handing over, acknowledging, and their fate.
//!
//! Handing over looks first and writes only if something would change, so a
//! worker that polls an empty queue costs no commit.

use async_trait::async_trait;
use serde_json::json;
use sunaba_store::{Error, MessageStore, Queued, Result, TakeMode, Writer};
use sunaba_store_sql::draft::Notice;
use sunaba_types::limits::{MESSAGE_REDELIVERY_SECONDS, MESSAGES_MAX_WAITING};
use sunaba_types::{
    Message, MessageId, MessageState, MessageType, NewMessage, ProjectId, SandboxId, Timestamp,
};

use crate::SqliteStore;
use crate::fault::{Fault, Unreadable, told};
use crate::page::{Weight, gather, in_time};
use crate::rows::{all, list, maybe_time, message_id, readable, time};
use crate::unit::Unit;
use crate::writer::Command;

/// Most content handed over by one poll; the rest comes with the next.
const TAKE_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Selects whole messages (`m`).
macro_rules! message_query {
    ($tail:tt $(, $arg:expr)* $(,)?) => {
        sqlx::query_as!(
            MessageRow,
            r#"SELECT m.id AS "id!", m.sandbox_id AS "sandbox_id!", m.seq AS "seq!", m.content AS "content!",
                      m.message_type AS "message_type!", m.sender AS "sender!", m.state AS "state!",
                      m.created_at AS "created_at!", m.handed_over_at, m.acknowledged_at, m.consumed_at,
                      m.consumed_seq, m.reason
               FROM messages AS m "# + $tail
            $(, $arg)*
        )
    };
}

#[derive(Debug)]
struct MessageRow {
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

struct QueueMessage(NewMessage);

#[async_trait]
impl Command<Unit> for QueueMessage {
    type Output = Queued;

    async fn run(&self, unit: &mut Unit) -> Result<Queued, Fault> {
        let new = &self.0;
        let sandbox = unit.get_sandbox(&new.sandbox_id).await?.row.clone();
        if sandbox.state.is_terminal() {
            let detail = format!("sandbox {} is {}; nobody will take the message", sandbox.id, sandbox.state);
            return Err(Error::conflict("sandbox_ended", detail).into());
        }
        let key = new.sandbox_id.as_str();
        let counted = sqlx::query!(
            r#"SELECT count(*) AS "outstanding!: i64", coalesce(sum(state = 'queued'), 0) AS "waiting!: i64"
               FROM messages
               WHERE sandbox_id = ?1 AND state IN ('queued', 'handed_over') AND acknowledged_at IS NULL"#,
            key
        )
        .fetch_one(unit.sql())
        .await?;
        if counted.outstanding >= i64::try_from(MESSAGES_MAX_WAITING).unwrap_or(i64::MAX) {
            let detail = format!("{MESSAGES_MAX_WAITING} messages wait for sandbox {key} already");
            return Err(Error::Full { code: "message_queue_full", detail }.into());
        }
        let message = insert(unit, new).await?;
        let queue_size = counted.waiting + 1;
        unit.draft.publish(Notice {
            project_id: sandbox.project_id.as_ref(),
            event_type: "SANDBOX_MESSAGE_QUEUED",
            entity_type: "sandbox",
            entity_id: key,
            sandbox_id: Some(&new.sandbox_id),
            payload: json!({
                "sandbox_id": key, "message_id": message.id, "message_type": message.message_type,
                "content": message.content, "sender": message.sender, "queue_size": queue_size,
            }),
        });
        Ok(Queued { message, queue_size })
    }
}

async fn insert(unit: &mut Unit, new: &NewMessage) -> Result<Message, Fault> {
    let (id, key) = (MessageId::generate(), new.sandbox_id.as_str());
    let (id_text, kind, now) = (id.as_str(), new.message_type.as_str(), unit.now());
    let now_micros = now.as_microsecond();
    let seq = sqlx::query_scalar!(
        r#"INSERT INTO messages (id, sandbox_id, seq, content, message_type, sender, state, created_at)
           SELECT ?1, ?2, coalesce(max(seq), 0) + 1, ?3, ?4, ?5, 'queued', ?6
           FROM messages WHERE sandbox_id = ?2
           RETURNING seq"#,
        id_text,
        key,
        new.content,
        kind,
        new.sender,
        now_micros
    )
    .fetch_one(unit.sql())
    .await?;
    Ok(Message {
        id,
        sandbox_id: new.sandbox_id.clone(),
        seq,
        content: new.content.clone(),
        message_type: new.message_type,
        sender: new.sender.clone(),
        state: MessageState::Queued,
        created_at: now,
        handed_over_at: None,
        acknowledged_at: None,
        consumed_at: None,
        consumed_seq: None,
        reason: None,
    })
}

struct Take {
    sandbox_id: SandboxId,
    by: Writer,
    mode: TakeMode,
}

#[async_trait]
impl Command<Unit> for Take {
    type Output = Vec<Message>;

    async fn run(&self, unit: &mut Unit) -> Result<Vec<Message>, Fault> {
        let project_id = unit.standing_sandbox(&self.sandbox_id, self.by).await?.row.project_id.clone();
        let key = self.sandbox_id.as_str();
        let now = unit.now();
        let via = acknowledge(unit, key, &self.mode, now.as_microsecond()).await?;
        let taken = deliverable(unit, key, &self.mode).await?;
        hand_over(unit, &self.sandbox_id, project_id.as_ref(), taken, via).await
    }
}

/// Acknowledges what earlier legacy polls took and shows what is to be taken next.
struct Offer {
    sandbox_id: SandboxId,
    by: Writer,
}

#[async_trait]
impl Command<Unit> for Offer {
    type Output = Vec<Message>;

    async fn run(&self, unit: &mut Unit) -> Result<Vec<Message>, Fault> {
        unit.standing_sandbox(&self.sandbox_id, self.by).await?;
        let (key, now) = (self.sandbox_id.as_str(), unit.now().as_microsecond());
        acknowledge(unit, key, &TakeMode::Legacy, now).await?;
        deliverable(unit, key, &TakeMode::Legacy).await
    }
}

/// Records that a legacy poll has taken what it was shown.
struct HandOver {
    sandbox_id: SandboxId,
    by: Writer,
    ids: Vec<MessageId>,
}

#[async_trait]
impl Command<Unit> for HandOver {
    type Output = ();

    async fn run(&self, unit: &mut Unit) -> Result<(), Fault> {
        let project_id = unit.standing_sandbox(&self.sandbox_id, self.by).await?.row.project_id.clone();
        let (key, ids) = (self.sandbox_id.as_str(), list(self.ids.iter().map(MessageId::as_str)));
        let rows = message_query!(
            "WHERE m.sandbox_id = ?1 AND m.state IN ('queued', 'handed_over') AND m.acknowledged_at IS NULL
               AND m.id IN (SELECT value FROM json_each(?2))
             ORDER BY m.seq",
            key,
            ids
        )
        .fetch_all(unit.sql())
        .await?;
        hand_over(unit, &self.sandbox_id, project_id.as_ref(), all(rows)?, "legacy").await?;
        Ok(())
    }
}

/// What a poll gets now: interrupts first, then oldest first.
async fn deliverable(unit: &mut Unit, key: &str, mode: &TakeMode) -> Result<Vec<Message>, Fault> {
    let overdue = overdue_at(unit.now(), mode);
    let rows = message_query!(
        "WHERE m.sandbox_id = ?1 AND m.state IN ('queued', 'handed_over') AND m.acknowledged_at IS NULL
           AND (m.state = 'queued' OR m.offered_at <= ?2)
         ORDER BY m.message_type = 'interrupt' DESC, m.seq",
        key,
        overdue
    )
    .fetch_all(unit.sql())
    .await?;
    Ok(bounded(all(rows)?))
}

/// Marks messages as handed over and says so.
async fn hand_over(
    unit: &mut Unit,
    sandbox_id: &SandboxId,
    project_id: Option<&ProjectId>,
    mut taken: Vec<Message>,
    via: &'static str,
) -> Result<Vec<Message>, Fault> {
    let (key, now) = (sandbox_id.as_str(), unit.now());
    let now_micros = now.as_microsecond();
    let ids = list(taken.iter().map(|message: &Message| message.id.as_str()));
    sqlx::query!(
        "UPDATE messages SET state = 'handed_over', handed_over_at = coalesce(handed_over_at, ?2),
                                 offered_at = ?2, via = ?3
             WHERE id IN (SELECT value FROM json_each(?1))",
        ids,
        now_micros,
        via
    )
    .execute(unit.sql())
    .await?;
    for message in &mut taken {
        let again = message.handed_over_at.is_some();
        message.state = MessageState::HandedOver;
        message.handed_over_at.get_or_insert(now);
        unit.draft.publish(Notice {
            project_id,
            event_type: "SANDBOX_MESSAGE_DELIVERED",
            entity_type: "sandbox",
            entity_id: key,
            sandbox_id: Some(sandbox_id),
            payload: json!({
                "sandbox_id": key, "message_id": message.id, "message_type": message.message_type,
                "redelivery": again,
            }),
        });
    }
    Ok(taken)
}

/// Acknowledges what the mode says; gives the mode's name.
async fn acknowledge(unit: &mut Unit, key: &str, mode: &TakeMode, now: i64) -> Result<&'static str, Fault> {
    match mode {
        TakeMode::Explicit { acknowledged, .. } if acknowledged.is_empty() => Ok("explicit"),
        TakeMode::Explicit { acknowledged, .. } => {
            let ids = list(acknowledged.iter().map(MessageId::as_str));
            sqlx::query!(
                "UPDATE messages SET acknowledged_at = ?3
                 WHERE sandbox_id = ?1 AND state IN ('queued', 'handed_over') AND acknowledged_at IS NULL
                   AND state = 'handed_over'
                   AND id IN (SELECT value FROM json_each(?2))",
                key,
                ids,
                now
            )
            .execute(unit.sql())
            .await?;
            Ok("explicit")
        }
        TakeMode::Legacy => {
            sqlx::query!(
                "UPDATE messages SET acknowledged_at = ?2
                 WHERE sandbox_id = ?1 AND state IN ('queued', 'handed_over') AND acknowledged_at IS NULL
                   AND state = 'handed_over'
                   AND via = 'legacy'",
                key,
                now
            )
            .execute(unit.sql())
            .await?;
            Ok("legacy")
        }
    }
}

/// What was handed over until then and not acknowledged is offered again.
fn overdue_at(now: Timestamp, mode: &TakeMode) -> i64 {
    match mode {
        TakeMode::Explicit { again: true, .. } => now.as_microsecond(),
        _ => now.as_microsecond() - MESSAGE_REDELIVERY_SECONDS * 1_000_000,
    }
}

/// As many messages, from the front, as one answer may hold; at least one.
fn bounded(mut messages: Vec<Message>) -> Vec<Message> {
    let mut bytes = 0;
    let fits = messages
        .iter()
        .take_while(|message| {
            let first = bytes == 0;
            bytes += message.content.len().max(1);
            first || bytes <= TAKE_MAX_BYTES
        })
        .count();
    messages.truncate(fits);
    messages
}

impl SqliteStore {
    /// Whether a poll would hand over or acknowledge anything.
    async fn take_would_write(&self, key: &str, mode: &TakeMode) -> Result<bool> {
        let overdue = overdue_at(self.clock.now(), mode);
        let (legacy, acknowledged) = match mode {
            TakeMode::Legacy => (true, "[]".to_owned()),
            TakeMode::Explicit { acknowledged, .. } => {
                (false, list(acknowledged.iter().map(MessageId::as_str)))
            }
        };
        let found = sqlx::query_scalar!(
            r#"SELECT EXISTS (
                   SELECT 1 FROM messages
                   WHERE sandbox_id = ?1 AND state IN ('queued', 'handed_over') AND acknowledged_at IS NULL
                     AND (state = 'queued' OR offered_at <= ?2 OR (?3 AND via = 'legacy')
                          OR id IN (SELECT value FROM json_each(?4)))) AS "found!: bool""#,
            key,
            overdue,
            legacy,
            acknowledged
        )
        .fetch_one(&self.readers)
        .await;
        found.map_err(told)
    }
}

#[async_trait]
impl MessageStore for SqliteStore {
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
            "WHERE m.sandbox_id = ?1 AND m.state IN ('queued', 'handed_over') AND m.acknowledged_at IS NULL
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
            "WHERE m.sandbox_id = ?1 AND m.seq > ?2 ORDER BY m.seq LIMIT ?3",
            key,
            after_seq,
            limit
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
        let row = message_query!("WHERE m.id = ?1", key).fetch_optional(&self.readers).await.map_err(told)?;
        Ok(row.map(Message::try_from).transpose()?)
    }
}

impl Unit {
    /// A new worker starts: everything not consumed is offered again.
    pub(crate) async fn offer_again(&mut self, id: &SandboxId) -> Result<(), Fault> {
        let key = id.as_str();
        sqlx::query!(
            "UPDATE messages SET state = 'queued', via = NULL, offered_at = NULL, acknowledged_at = NULL
             WHERE sandbox_id = ?1 AND state = 'handed_over'",
            key
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }

    /// A message is in the conversation: the one with this id or, without one, the oldest
    /// handed-over one that says the same.
    pub(crate) async fn consume(
        &mut self,
        sandbox: &SandboxId,
        id: Option<String>,
        content: Option<String>,
        seq: i64,
    ) -> Result<(), Fault> {
        let (key, now) = (sandbox.as_str(), self.now().as_microsecond());
        sqlx::query!(
            "UPDATE messages SET state = 'consumed', consumed_at = ?5, consumed_seq = ?4,
                                 acknowledged_at = coalesce(acknowledged_at, ?5),
                                 handed_over_at = coalesce(handed_over_at, ?5)
             WHERE sandbox_id = ?1 AND state IN ('queued', 'handed_over')
               AND id = CASE WHEN ?2 IS NOT NULL THEN ?2 ELSE
                   (SELECT o.id FROM messages AS o
                    WHERE o.sandbox_id = ?1 AND o.state = 'handed_over' AND o.content = ?3
                    ORDER BY o.seq LIMIT 1) END",
            key,
            id,
            content,
            seq,
            now
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }
}
