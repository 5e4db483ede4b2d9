//! A new message.

use async_trait::async_trait;
use sunaba_store::{Queued, Result};
use sunaba_types::{MessageId, NewMessage};

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
        let key = new.sandbox_id.as_str();
        let counted = sqlx::query!(
            r#"SELECT count(*) AS "outstanding!", count(*) FILTER (WHERE state = 'queued') AS "waiting!"
               FROM messages
               WHERE sandbox_id = $1 AND state IN ('queued', 'handed_over') AND acknowledged_at IS NULL"#,
            key
        )
        .fetch_one(unit.sql())
        .await?;
        unit.draft.refuse_message(&new.sandbox_id, counted.outstanding)?;
        let id = MessageId::generate();
        let seq = insert_message(unit, &id, new).await?;
        Ok(unit.draft.message_queued(new, id, seq, counted.waiting + 1))
    }
}

/// Stores a message that waits; gives its number.
pub(crate) async fn insert_message(unit: &mut Unit, id: &MessageId, new: &NewMessage) -> Result<i64, Fault> {
    let (id_text, key, kind) = (id.as_str(), new.sandbox_id.as_str(), new.message_type.as_str());
    let now_micros = unit.now().as_microsecond();
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
    Ok(seq)
}
