//! Lets the policy decide on questions that nobody answered in time: an answer, or a wait without a sandbox.
//!
//! Every server looks; who comes second finds nothing to decide. Time in which nobody could have answered does not
//! count: after a start a question has another minute, or its whole time if that is less.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use sunaba_nodes::Loops;
use sunaba_store::{Error, Store, Suspension, Waits};
use sunaba_types::{Clock, Question, QuestionPolicy, Timestamp};
use tokio_util::sync::CancellationToken;

const LOOK_EVERY: Duration = Duration::from_millis(500);
const AFTER_A_START: SignedDuration = SignedDuration::from_secs(60);
/// How many are decided at one look; the rest waits for the next.
const AT_ONCE: u32 = 100;

/// The task that looks.
#[derive(Debug)]
pub(crate) struct Expiry {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    started_at: Timestamp,
}

impl Expiry {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let started_at = clock.now();
        Self { store, clock, started_at }
    }

    /// Looks until the server stops, and says after each look how it went.
    pub(crate) async fn run(self, loops: Loops, shutdown: CancellationToken) {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let began = Instant::now();
            let looked = self.look().await;
            loops.round("questions", began, looked.is_ok());
            if let Err(error) = looked {
                tracing::warn!(%error, "could not look for questions whose time is over");
            }
        }
    }

    async fn look(&self) -> Result<(), Error> {
        for question in self.store.overdue_questions(AT_ONCE).await? {
            if !is_over(&question, self.started_at, self.clock.now()) {
                continue;
            }
            let decided = match question.policy {
                QuestionPolicy::Suspend => self.suspend(&question).await,
                QuestionPolicy::Deny | QuestionPolicy::Allow => {
                    self.store.expire_question(&question.id).await.map(drop)
                }
            };
            match decided {
                Ok(()) => tracing::info!(question = %question.id, sandbox = %question.sandbox_id,
                    policy = %question.policy, "nobody answered in time"),
                // It was answered, or its sandbox ended, while this looked.
                Err(Error::Conflict { detail, .. }) => {
                    tracing::debug!(question = %question.id, detail, "nothing is left to decide");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives the sandbox's place up until there is an answer.
    async fn suspend(&self, question: &Question) -> Result<(), Error> {
        let reason = format!("nobody has answered yet whether it may use {}", question.tool);
        self.store.suspend(&question.sandbox_id, Suspension { waits: Waits::Input, reason }).await.map(drop)
    }
}

fn is_over(question: &Question, started_at: Timestamp, now: Timestamp) -> bool {
    let whole = question.expires_at.duration_since(question.asked_at);
    now >= question.expires_at && now.duration_since(started_at) >= whole.min(AFTER_A_START)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn time_in_which_nobody_could_answer_does_not_count() {
        let question: Question = serde_json::from_value(json!({
            "id": "qst_1", "sandbox_id": "s", "project_id": null, "task_id": null, "attempt": 1,
            "client_id": "a", "tool": "Bash", "tool_use_id": "t", "input": {}, "policy": "deny",
            "asked_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-01T00:15:00Z", "state": "open",
            "answer": null, "updated_input": null, "message": null, "remember": null, "answered_by": null,
            "answered_at": null, "reason": null,
        }))
        .unwrap();
        let at = |time: &str| -> Timestamp { format!("2026-01-01T{time}Z").parse().unwrap() };
        assert!(is_over(&question, at("00:00:00"), at("00:15:00")));
        assert!(!is_over(&question, at("00:00:00"), at("00:14:59")));
        assert!(!is_over(&question, at("03:00:00"), at("03:00:59")), "it has just come back");
        assert!(is_over(&question, at("03:00:00"), at("03:01:00")));
        let short = Question { expires_at: at("00:00:05"), ..question };
        assert!(is_over(&short, at("03:00:00"), at("03:00:05")));
    }
}
