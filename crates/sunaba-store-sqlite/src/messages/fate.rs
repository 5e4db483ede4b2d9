//! What events say about messages.

use sunaba_types::SandboxId;

use crate::fault::Fault;
use crate::unit::Unit;

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
