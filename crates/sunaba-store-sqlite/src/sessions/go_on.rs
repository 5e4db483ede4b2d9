//! A task goes on in another sandbox.

use async_trait::async_trait;
use sunaba_store::{FollowedUp, NewSandbox, Result};
use sunaba_store_sql::draft::Again;
use sunaba_types::{MessageId, NewMessage, Sandbox, SandboxId, SandboxState};

use crate::fault::Fault;
use crate::messages::insert_message;
use crate::rows::readable;
use crate::unit::Unit;
use crate::writer::Command;

pub(super) struct FollowUp(pub(super) NewMessage);

#[async_trait]
impl Command<Unit> for FollowUp {
    type Output = FollowedUp;

    async fn run(&self, unit: &mut Unit) -> Result<FollowedUp, Fault> {
        let past = &self.0.sandbox_id;
        unit.get_sandbox(past).await?;
        let last = unit.last_transcript_of(past).await?;
        let id = MessageId::generate();
        let new = unit.draft.follow_up(past, &self.0.content, &id, last.as_ref())?;
        let sandbox = unit.make_next(past, &new).await?;
        let message = NewMessage { sandbox_id: sandbox.id.clone(), ..self.0.clone() };
        let seq = insert_message(unit, &id, &message).await?;
        let queued = unit.draft.message_queued(&message, id, seq, seq);
        Ok(FollowedUp { sandbox, queued })
    }
}

pub(super) struct ReplaceDied {
    pub(super) id: SandboxId,
    pub(super) reason: String,
    pub(super) most_deaths: i64,
}

#[async_trait]
impl Command<Unit> for ReplaceDied {
    type Output = Option<Sandbox>;

    async fn run(&self, unit: &mut Unit) -> Result<Option<Sandbox>, Fault> {
        unit.get_sandbox(&self.id).await?;
        unit.fail_and_retry(&self.id, &self.reason, Again::Deaths(self.most_deaths)).await
    }
}

impl Unit {
    /// Fails a sandbox with its task and makes what takes its place, if something does.
    pub(crate) async fn fail_and_retry(
        &mut self,
        id: &SandboxId,
        reason: &str,
        again: Again,
    ) -> Result<Option<Sandbox>, Fault> {
        let last = self.last_transcript_of(id).await?;
        match self.draft.fail_and_retry(id, reason, again, last.as_ref())? {
            Some(new) => Ok(Some(self.make_next(id, &new).await?)),
            None => Ok(None),
        }
    }

    /// Makes the sandbox that goes on after another one, which leaves it what nobody has read, also if it failed before
    /// anybody knew that something would go on. The words of an interrupt are a message to the next one, which does nothing
    /// yet that could be stopped; of one that was done nothing was stopped at all.
    pub(crate) async fn make_next(&mut self, past: &SandboxId, new: &NewSandbox) -> Result<Sandbox, Fault> {
        let new = self.with_own_conversation(past, new).await?;
        let next = self.make_sandbox(&new).await?;
        let (from, to) = (past.as_str(), next.id.as_str());
        let row = &self.draft.get_sandbox(past)?.row;
        let unfinished = row.state == SandboxState::Failed || row.terms.suspended.is_some();
        sqlx::query!(
            "UPDATE messages SET sandbox_id = ?2, state = 'queued', via = NULL, offered_at = NULL,
                                 handed_over_at = NULL, acknowledged_at = NULL, reason = NULL,
                                 message_type = CASE message_type WHEN 'interrupt' THEN 'user_message'
                                                                  ELSE message_type END
             WHERE sandbox_id = ?1 AND (message_type <> 'interrupt' OR ?3 AND trim(content, char(9, 10, 11, 12, 13, 32)) <> '')
               AND (state IN ('queued', 'handed_over')
                    OR ?3 AND state = 'expired' AND reason LIKE 'the sandbox ended %')",
            from,
            to,
            unfinished
        )
        .execute(self.sql())
        .await?;
        Ok(next)
    }

    /// What somebody said to a sandbox that is completed before its agent read it is a follow-up.
    pub(crate) async fn go_on_with_the_unread(&mut self, id: &SandboxId) -> Result<(), Fault> {
        let key = id.as_str();
        let unread = sqlx::query!(
            "SELECT id, content FROM messages
             WHERE sandbox_id = ?1 AND state IN ('queued', 'handed_over') AND message_type <> 'interrupt'
             ORDER BY seq LIMIT 1",
            key
        )
        .fetch_optional(self.sql())
        .await?;
        let Some(unread) = unread else { return Ok(()) };
        let message = readable(MessageId::parse(unread.id).ok(), "messages", "id", key)?;
        let last = self.last_transcript_of(id).await?;
        // One that works on no task has nothing to go on with, and its messages expire.
        if let Ok(new) = self.draft.follow_up(id, &unread.content, &message, last.as_ref()) {
            self.make_next(id, &new).await?;
        }
        Ok(())
    }
}
