//! Writing open search calls and the rows of sandboxes, tasks and messages.

use serde_json::json;
use sunaba_types::{NodeId, Sandbox, SandboxId, Task, Timestamp};

use super::Unit;
use super::written::WrittenName;
use crate::rows::storable;

impl Unit {
    pub(super) async fn flush_noisy(&mut self) -> Result<(), sqlx::Error> {
        let opened = WrittenName::all(std::mem::take(&mut self.draft.noisy_opened));
        if !opened.is_empty() {
            sqlx::query!(
                "INSERT INTO noisy_calls (sandbox_id, tool_use_id)
                 SELECT new.sandbox_id, new.name FROM unnest($1::written_name[]) AS new ON CONFLICT DO NOTHING",
                &opened as &[WrittenName]
            )
            .execute(self.sql())
            .await?;
        }
        let closed = WrittenName::all(std::mem::take(&mut self.draft.noisy_closed));
        if !closed.is_empty() {
            sqlx::query!(
                "DELETE FROM noisy_calls AS held USING unnest($1::written_name[]) AS gone
                 WHERE held.sandbox_id = gone.sandbox_id AND held.tool_use_id = gone.name",
                &closed as &[WrittenName]
            )
            .execute(self.sql())
            .await?;
        }
        Ok(())
    }

    pub(super) async fn flush_rows(&mut self) -> Result<(), sqlx::Error> {
        for row in self.draft.take_changed_sandboxes() {
            self.update_sandbox(&row).await?;
        }
        for row in self.draft.take_changed_tasks() {
            self.update_task(&row).await?;
        }
        Ok(())
    }

    async fn update_sandbox(&mut self, row: &Sandbox) -> Result<(), sqlx::Error> {
        let (id, state, entered) =
            (row.id.as_str(), row.state.as_str(), row.state_entered_at.as_microsecond());
        let ended = row.ended_at.map(Timestamp::as_microsecond);
        let terms = json!(row.terms).to_string();
        let reason = row.reason.as_deref().map(storable);
        let exit = row.exit.as_ref().map(|exit| json!(exit).to_string());
        let node_id = row.node_id.as_ref().map(NodeId::as_str);
        sqlx::query!(
            "UPDATE sandboxes SET provider_ref = $2, state = $3, state_entered_at = $4, reason = $5,
                                  branch_name = $6, base_commit = $7, head_commit = $8, isolation = $9,
                                  ended_at = $10, terms = $11, exit = $12, node_id = $13
             WHERE id = $1",
            id,
            row.provider_ref.as_deref(),
            state,
            entered,
            reason.as_deref(),
            row.branch_name.as_deref(),
            row.base_commit.as_deref(),
            row.head_commit.as_deref(),
            row.isolation.as_deref(),
            ended,
            terms,
            exit,
            node_id
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }

    async fn update_task(&mut self, row: &Task) -> Result<(), sqlx::Error> {
        let (id, status) = (row.id.as_str(), row.status.as_str());
        let sandbox_id = row.sandbox_id.as_ref().map(SandboxId::as_str);
        let outcome = row.outcome.map(sunaba_types::Outcome::as_str);
        let result = row.result.as_ref().map(ToString::to_string);
        let error_message = row.error_message.as_deref().map(storable);
        let updated = row.updated_at.as_microsecond();
        let started = row.started_at.map(Timestamp::as_microsecond);
        let completed = row.completed_at.map(Timestamp::as_microsecond);
        sqlx::query!(
            "UPDATE tasks SET status = $2, sandbox_id = $3, assigned_agent_id = $4, attempt = $5, outcome = $6,
                              result = $7, error_message = $8, updated_at = $9, started_at = $10,
                              completed_at = $11
             WHERE id = $1",
            id,
            status,
            sandbox_id,
            row.assigned_agent_id.as_deref(),
            row.attempt,
            outcome,
            result,
            error_message.as_deref(),
            updated,
            started,
            completed
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }

    /// What was asked by sandboxes that are over, and not answered.
    pub(super) async fn withdraw_questions(&mut self) -> Result<(), sqlx::Error> {
        let over = self.draft.no_longer_asking();
        if over.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = over.iter().map(ToString::to_string).collect();
        let now = self.now().as_microsecond();
        sqlx::query!(
            "UPDATE questions SET state = 'withdrawn', answered_at = $2,
                                  reason = 'the sandbox ended before it was answered'
             WHERE answered_at IS NULL AND sandbox_id = ANY($1)",
            &ids,
            now
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }

    /// What nobody took before the sandbox ended will not be taken; what was only taken will not be read.
    pub(super) async fn expire_messages(&mut self) -> Result<(), sqlx::Error> {
        let over = self.draft.take_no_longer_told();
        if over.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = over.iter().map(ToString::to_string).collect();
        sqlx::query!(
            "UPDATE messages
             SET state = 'expired',
                 reason = CASE state WHEN 'queued' THEN 'the sandbox ended before it was taken'
                                     ELSE 'the sandbox ended after it was taken and before the agent read it' END
             WHERE state IN ('queued', 'handed_over') AND sandbox_id = ANY($1)",
            &ids
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }
}
