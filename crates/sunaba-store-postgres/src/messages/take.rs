//! Handing messages over, and what a poll acknowledges.

use async_trait::async_trait;
use sunaba_store::{Result, TakeMode, Writer};
use sunaba_store_sql::draft::{bounded, overdue_at};
use sunaba_types::{Message, MessageId, SandboxId};

use crate::fault::Fault;
use crate::rows::{all, list};
use crate::unit::{Needs, Unit};
use crate::writer::Command;

pub(super) struct Take {
    pub(super) sandbox_id: SandboxId,
    pub(super) by: Writer,
    pub(super) mode: TakeMode,
}

#[async_trait]
impl Command<Unit> for Take {
    type Output = Vec<Message>;

    fn needs(&self, needs: &mut Needs) {
        needs.sandbox(&self.sandbox_id);
    }

    async fn run(&self, unit: &mut Unit) -> Result<Vec<Message>, Fault> {
        unit.draft.standing_sandbox(&self.sandbox_id, self.by)?;
        let key = self.sandbox_id.as_str();
        let now = unit.now();
        let via = acknowledge(unit, key, &self.mode, now.as_microsecond()).await?;
        let taken = deliverable(unit, key, &self.mode).await?;
        hand_over(unit, &self.sandbox_id, taken, via).await
    }
}

/// Acknowledges what earlier legacy polls took and shows what is to be taken next.
pub(super) struct Offer {
    pub(super) sandbox_id: SandboxId,
    pub(super) by: Writer,
}

#[async_trait]
impl Command<Unit> for Offer {
    type Output = Vec<Message>;

    fn needs(&self, needs: &mut Needs) {
        needs.sandbox(&self.sandbox_id);
    }

    async fn run(&self, unit: &mut Unit) -> Result<Vec<Message>, Fault> {
        unit.draft.standing_sandbox(&self.sandbox_id, self.by)?;
        let (key, now) = (self.sandbox_id.as_str(), unit.now().as_microsecond());
        acknowledge(unit, key, &TakeMode::Legacy, now).await?;
        deliverable(unit, key, &TakeMode::Legacy).await
    }
}

/// Records that a legacy poll has taken what it was shown.
pub(super) struct HandOver {
    pub(super) sandbox_id: SandboxId,
    pub(super) by: Writer,
    pub(super) ids: Vec<MessageId>,
}

#[async_trait]
impl Command<Unit> for HandOver {
    type Output = ();

    fn needs(&self, needs: &mut Needs) {
        needs.sandbox(&self.sandbox_id);
    }

    async fn run(&self, unit: &mut Unit) -> Result<(), Fault> {
        unit.draft.standing_sandbox(&self.sandbox_id, self.by)?;
        let (key, ids) = (self.sandbox_id.as_str(), list(self.ids.iter().map(MessageId::as_str)));
        let rows = message_query!(
            "WHERE m.sandbox_id = $1 AND m.state IN ('queued', 'handed_over') AND m.acknowledged_at IS NULL
               AND m.id = ANY($2)
             ORDER BY m.seq",
            key,
            &ids
        )
        .fetch_all(unit.sql())
        .await?;
        hand_over(unit, &self.sandbox_id, all(rows)?, "legacy").await?;
        Ok(())
    }
}

/// What a poll gets now: interrupts first, then oldest first.
async fn deliverable(unit: &mut Unit, key: &str, mode: &TakeMode) -> Result<Vec<Message>, Fault> {
    let overdue = overdue_at(unit.now(), mode);
    let rows = message_query!(
        "WHERE m.sandbox_id = $1 AND m.state IN ('queued', 'handed_over') AND m.acknowledged_at IS NULL
           AND (m.state = 'queued' OR m.offered_at <= $2)
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
    taken: Vec<Message>,
    via: &'static str,
) -> Result<Vec<Message>, Fault> {
    let now_micros = unit.now().as_microsecond();
    let ids = list(taken.iter().map(|message: &Message| message.id.as_str()));
    sqlx::query!(
        "UPDATE messages SET state = 'handed_over', handed_over_at = coalesce(handed_over_at, $2),
                                 offered_at = $2, via = $3
             WHERE id = ANY($1)",
        &ids,
        now_micros,
        via
    )
    .execute(unit.sql())
    .await?;
    Ok(unit.draft.messages_handed_over(sandbox_id, taken))
}

/// Acknowledges what the mode says; gives the mode's name.
async fn acknowledge(unit: &mut Unit, key: &str, mode: &TakeMode, now: i64) -> Result<&'static str, Fault> {
    match mode {
        TakeMode::Explicit { acknowledged, .. } if acknowledged.is_empty() => Ok("explicit"),
        TakeMode::Explicit { acknowledged, .. } => {
            let ids = list(acknowledged.iter().map(MessageId::as_str));
            sqlx::query!(
                "UPDATE messages SET acknowledged_at = $3
                 WHERE sandbox_id = $1 AND state IN ('queued', 'handed_over') AND acknowledged_at IS NULL
                   AND state = 'handed_over'
                   AND id = ANY($2)",
                key,
                &ids,
                now
            )
            .execute(unit.sql())
            .await?;
            Ok("explicit")
        }
        TakeMode::Legacy => {
            sqlx::query!(
                "UPDATE messages SET acknowledged_at = $2
                 WHERE sandbox_id = $1 AND state IN ('queued', 'handed_over') AND acknowledged_at IS NULL
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
