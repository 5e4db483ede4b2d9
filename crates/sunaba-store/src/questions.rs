//! Questions that agents ask, and their fate.
//!
//! What is asked, answered, expired or withdrawn is told in the sandbox's log in the same transaction
//! (`agent.question_asked`, `sandbox.question_answered`, `sandbox.question_expired`, `agent.question_withdrawn`).

use async_trait::async_trait;
use sunaba_types::{NewAnswer, NewQuestion, ProjectId, Question, QuestionId, QuestionState, SandboxId};

use crate::{Result, Writer};

/// Which questions to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct QuestionFilter {
    /// Only of this sandbox.
    pub sandbox_id: Option<SandboxId>,
    /// Only in this state.
    pub state: Option<QuestionState>,
    /// Only of these projects; none means all.
    pub visible_projects: Option<Vec<ProjectId>>,
    /// Only older than this one.
    pub before: Option<QuestionId>,
    /// How many.
    pub limit: u32,
}

/// Questions.
#[async_trait]
pub trait QuestionStore {
    /// Asks, or gives what was asked before under the same name; fenced like an event.
    ///
    /// The sandbox's terms say how long it waits and what becomes of it then. It is answered at once by an answer
    /// that is remembered for its tool, and by one to the same call that came when the attempt before had ended.
    /// [`crate::Error::Conflict`]: `question_id_conflict` for another question under the same name,
    /// `sandbox_ended` when nobody will wait; [`crate::Error::Full`] `questions_full` at 100 open ones.
    async fn ask_question(&self, by: Writer, question: NewQuestion) -> Result<Question>;

    /// A question by id.
    async fn find_question(&self, id: &QuestionId) -> Result<Option<Question>>;

    /// Questions, newest first; at most [`crate::PAGE_BYTES`].
    async fn list_questions(&self, filter: QuestionFilter) -> Result<Vec<Question>>;

    /// Answers. The same answer again changes nothing; another one, or one that comes too late, is
    /// [`crate::Error::Conflict`] (`question_answered`, `question_expired`, `question_withdrawn`).
    async fn answer_question(&self, id: &QuestionId, answer: NewAnswer) -> Result<Question>;

    /// Whether the answer came when the sandbox that had asked was gone or about to go: then it is for whoever goes on
    /// with its task, and only for them.
    async fn came_late(&self, id: &QuestionId) -> Result<bool>;

    /// Takes an open question back; one that is not open stays as it is.
    async fn withdraw_question(&self, id: &QuestionId, by: Writer, reason: &str) -> Result<Question>;

    /// Open questions of living sandboxes whose time is over, the longest overdue first.
    async fn overdue_questions(&self, limit: u32) -> Result<Vec<Question>>;

    /// Lets the policy answer an open question whose time is over; what is not such a one stays as it is, and so
    /// does one whose policy is to wait.
    async fn expire_question(&self, id: &QuestionId) -> Result<Question>;
}
