//! A new message.

use async_trait::async_trait;
use serde_json::json;
use sunaba_store::{Error, Queued, Result};
use sunaba_store_sql::draft::Notice;
use sunaba_types::limits::MESSAGES_MAX_WAITING;
use sunaba_types::{Message, MessageId, MessageState, NewMessage};

use crate::fault::Fault;
use crate::unit::{Needs, Unit};
use crate::writer::Command;

pub(super) struct QueueMessage(pub(super) NewMessage);

#[async_trait]
impl Command<Unit> for QueueMessage {
    type Output = Queued;

    fn needs(&self, needs: &mut Needs) {
        needs.sandbox(&self.0.sandbox_id);
    }

    async fn run(&self, unit: &mut Unit) -> Result<Queued, Fault> {
        let new = &self.0;
        let sandbox = unit.draft.get_sandbox(&new.sandbox_id)?.row.clone();
        if sandbox.state.is_terminal() {
            let detail = format!("sandbox {} is {}; nobody will take the message", sandbox.id, sandbox.state);
            return Err(Error::conflict("sandbox_ended", detail).into());
        }
        let key = new.sandbox_id.as_str();
        let counted = sqlx::query!(
            r#"SELECT count(*) AS "outstanding!", count(*) FILTER (WHERE state = 'queued') AS "waiting!"
               FROM messages
               WHERE sandbox_id = $1 AND state IN ('queued', 'handed_over') AND acknowledged_at IS NULL"#,
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
           SELECT $1::text, $2::text, coalesce(max(seq), 0) + 1, $3::text, $4::text, $5::text, 'queued', $6::bigint
           FROM messages WHERE sandbox_id = $2
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
