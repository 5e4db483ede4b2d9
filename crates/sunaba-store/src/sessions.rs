//! Conversations of agents, and how a task goes on with one in another sandbox.
//!
//! A sandbox never begins again: whatever goes on after it does so in a new one, which is the task's next attempt, on
//! the same terms and the same branch. It goes on with the task's last conversation ([`sunaba_types::Terms::resume`])
//! where one was kept and its runtime is still the same; messages that nobody has read go over to it.
//!
//! ```text
//! suspend ──▶ the task waits, its sandbox is ended by its node ──▶ the answers to its questions, or the time ──▶ wake ──▶ a new sandbox
//! ```

use async_trait::async_trait;
use sunaba_types::{
    BlobHash, NewMessage, ProjectId, Sandbox, SandboxId, TaskId, Timestamp, TranscriptRecord,
};

use crate::{Queued, Result, Writer};

/// A conversation that a sandbox sent.
#[derive(Debug, Clone)]
pub struct NewTranscript {
    /// Who sent it.
    pub sandbox_id: SandboxId,
    /// Its name.
    pub session_id: String,
    /// Where its bytes are.
    pub hash: BlobHash,
    /// How many.
    pub size_bytes: i64,
    /// How many turns were made in this sandbox. A conversation with fewer than the one that is kept came late and is
    /// left out.
    pub turns: i64,
}

/// What a task waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waits {
    /// A person's answers to what its sandbox asked ([`crate::QuestionStore::answer_question`]).
    Input,
    /// A limit that is reset then.
    Quota {
        /// When.
        until: Timestamp,
    },
}

/// Why a sandbox's place is given up for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspension {
    /// What its task waits for.
    pub waits: Waits,
    /// In words, for people.
    pub reason: String,
}

/// A message after the end, and the sandbox that takes it.
#[derive(Debug, Clone, PartialEq)]
pub struct FollowedUp {
    /// The new sandbox.
    pub sandbox: Sandbox,
    /// The message, which is its prompt.
    pub queued: Queued,
}

/// Conversations and what goes on with them.
#[async_trait]
pub trait SessionStore {
    /// Keeps where a conversation is; the latest one counts. Fenced like an event. [`crate::Error::Full`]
    /// (`too_many_sessions`) at [`sunaba_types::limits::SESSIONS_MAX`]. Gives the blob that it took the place of, which
    /// is the sandbox's no more.
    async fn put_transcript(&self, transcript: NewTranscript, by: Writer) -> Result<Option<BlobHash>>;

    /// The conversations of a sandbox, newest first.
    async fn list_transcripts(&self, sandbox_id: &SandboxId) -> Result<Vec<TranscriptRecord>>;

    /// A conversation wherever it was in these projects (`None`: anywhere), newest first, at most 100.
    async fn find_session(
        &self,
        session_id: &str,
        visible: Option<&[ProjectId]>,
    ) -> Result<Vec<TranscriptRecord>>;

    /// A living sandbox that works with this conversation, or is to go on with it, in the project of the sandbox that
    /// has it. While there is one,
    /// [`crate::RegistryStore::create_sandbox`] refuses another that would, other than with a copy:
    /// [`crate::Error::Conflict`] (`session_in_use`).
    async fn session_holder(&self, session_id: &str, of: &SandboxId) -> Result<Option<SandboxId>>;

    /// The last conversation of a task's attempts.
    async fn last_transcript(&self, task_id: &TaskId) -> Result<Option<TranscriptRecord>>;

    /// Says something to a task whose last sandbox, named by the message, is over: a new sandbox goes on with it.
    /// [`crate::Error::Conflict`]: `sandbox_ended` when nothing can go on (it works on no task, or somebody else
    /// runs it), `newer_attempt` when another sandbox has the task, `sandbox_lives` when it is not over.
    async fn follow_up(&self, message: NewMessage) -> Result<FollowedUp>;

    /// Lets the task of a sandbox wait. The node that holds the sandbox then has it save its work and ends it. Saying
    /// it again changes nothing. [`crate::Error::Conflict`] when the sandbox or its task is over or not to be suspended.
    async fn suspend(&self, sandbox_id: &SandboxId, suspension: Suspension) -> Result<Sandbox>;

    /// Suspended sandboxes that are over and whose task has what it waited for, longest first.
    async fn due_waits(&self, limit: u32) -> Result<Vec<SandboxId>>;

    /// Lets the task of such a sandbox go on in a new one. `None` if somebody else did, or there is nothing to do.
    async fn wake(&self, sandbox_id: &SandboxId) -> Result<Option<Sandbox>>;

    /// Fails a sandbox that died (or has told so itself), with its task, which goes on in a new one unless so many died
    /// in a row.
    /// `None` when it does not go on.
    async fn replace_died_sandbox(
        &self,
        sandbox_id: &SandboxId,
        reason: &str,
        most_deaths: i64,
    ) -> Result<Option<Sandbox>>;
}
