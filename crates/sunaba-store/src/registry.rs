//! Projects, tickets, tasks, sandboxes and the index of blobs.

use async_trait::async_trait;
use sunaba_engine::{SandboxTrigger, TaskTrigger};
use sunaba_types::shim::Exit;
use sunaba_types::{
    BlobHash, Egress, ExecutionConfig, Outcome, Priority, Project, ProjectId, ProjectSettings, Resources,
    Sandbox, SandboxId, SandboxState, Task, TaskId, TaskState, Terms, Ticket, TicketId, TicketType,
    Timestamp,
};

use crate::{HeldBy, Result, Writer};

/// A project to be made.
#[derive(Debug, Clone)]
pub struct NewProject {
    /// Its name.
    pub name: String,
    /// A repository on the server's own disk.
    pub repo_path: Option<String>,
    /// A repository elsewhere.
    pub repo_url: Option<String>,
    /// The branch that work starts from.
    pub default_branch: String,
    /// Its settings.
    pub settings: ProjectSettings,
}

/// A change to a project; what is absent stays.
#[derive(Debug, Clone, Default)]
pub struct ProjectPatch {
    /// Its name.
    pub name: Option<String>,
    /// The branch that work starts from.
    pub default_branch: Option<String>,
    /// All its settings anew.
    pub settings: Option<ProjectSettings>,
    /// The settings that the new ones were made from; others meanwhile are a conflict (`project_changed`).
    pub settings_before: Option<ProjectSettings>,
}

/// A ticket to be made.
#[derive(Debug, Clone)]
pub struct NewTicket {
    /// The repository it is about.
    pub project_id: ProjectId,
    /// In a few words.
    pub title: String,
    /// In as many as needed.
    pub description: String,
    /// What kind of work.
    pub ticket_type: TicketType,
    /// How urgent.
    pub priority: Priority,
    /// Who asks.
    pub owner: String,
}

/// A task to be made.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// The ticket it belongs to.
    pub ticket_id: TicketId,
    /// What kind of task.
    pub task_type: String,
    /// In a few words.
    pub title: String,
    /// What the agent is told.
    pub description: String,
    /// How urgent.
    pub priority: Priority,
    /// How its agent works.
    pub execution_config: ExecutionConfig,
}

/// A sandbox to be made.
#[derive(Debug, Clone)]
pub struct NewSandbox {
    /// The project; taken from the task when there is one.
    pub project_id: Option<ProjectId>,
    /// The task. Its attempt rises and it becomes `assigned`, in the same transaction.
    pub task_id: Option<TaskId>,
    /// What makes it.
    pub provider: String,
    /// Which agent drives it.
    pub runtime: String,
    /// Which model it speaks to.
    pub model: String,
    /// What the agent is told.
    pub prompt: String,
    /// What it may use.
    pub resources: Resources,
    /// On what terms.
    pub terms: Terms,
}

/// A ticket, its one task and a sandbox for it, all or none of them.
#[derive(Debug, Clone)]
pub struct NewWork {
    /// The ticket, of which the task has its title, text and urgency.
    pub ticket: NewTicket,
    /// What kind of task.
    pub task_type: String,
    /// The sandbox; the task is filled in.
    pub sandbox: NewSandbox,
}

impl NewWork {
    /// The task of the ticket that was made.
    pub fn task(&self, ticket_id: TicketId) -> NewTask {
        NewTask {
            ticket_id,
            task_type: self.task_type.clone(),
            title: self.ticket.title.clone(),
            description: self.ticket.description.clone(),
            priority: self.ticket.priority,
            execution_config: ExecutionConfig::default(),
        }
    }
}

/// Which sandboxes to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct SandboxFilter {
    /// Only in one of these states; empty means all.
    pub states: Vec<SandboxState>,
    /// Only made by this provider.
    pub provider: Option<String>,
    /// Only those that a node holds, or nobody; then of the others only states, provider and limit count.
    pub held_by: Option<HeldBy>,
    /// Only of this project.
    pub project_id: Option<ProjectId>,
    /// Only of these projects; none means all.
    pub visible_projects: Option<Vec<ProjectId>>,
    /// Only of this task.
    pub task_id: Option<TaskId>,
    /// Only older than this one (keyset cursor; ids sort by time within a creation instant).
    pub before: Option<SandboxId>,
    /// How many.
    pub limit: u32,
}

/// Which tasks to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    /// Only in this state.
    pub status: Option<TaskState>,
    /// Only of this ticket.
    pub ticket_id: Option<TicketId>,
    /// Only of this project.
    pub project_id: Option<ProjectId>,
    /// Only of these projects; none means all.
    pub visible_projects: Option<Vec<ProjectId>>,
    /// How many.
    pub limit: u32,
}

/// A change to a sandbox, applied with its task's in one transaction.
///
/// The state change is decided by the engine, recorded as a `sandbox.state_changed`
/// event in the sandbox's log (source `system`) and published as `SANDBOX_STATE_CHANGED`
/// (plus `SANDBOX_SPAWNED`, `SANDBOX_FAILED`, `SANDBOX_TERMINATED` where they apply, and
/// `TASK_*` for the task).
#[derive(Debug, Clone, Default)]
pub struct SandboxChange {
    /// The step to take; none changes only the fields below.
    pub trigger: Option<SandboxTrigger>,
    /// Only while it is in the state that it entered then; else a conflict (`sandbox_moved_on`). The same state after
    /// another one is not the same.
    pub only_since: Option<Timestamp>,
    /// Whether somebody wants it to end: then what nobody has read is no reason to go on.
    pub for_good: bool,
    /// The step its task takes.
    pub task_trigger: Option<TaskTrigger>,
    /// Why (for a failure or a cancellation).
    pub reason: Option<String>,
    /// The provider's own name for it.
    pub provider_ref: Option<String>,
    /// How well it is shut in.
    pub isolation: Option<String>,
    /// The branch it works on (also set on its ticket).
    pub branch_name: Option<String>,
    /// The commit it started from.
    pub base_commit: Option<String>,
    /// The commit it ended with.
    pub head_commit: Option<String>,
    /// What came of its task.
    pub outcome: Option<Outcome>,
    /// What its task produced.
    pub result: Option<serde_json::Value>,
    /// What it may reach.
    pub egress: Option<Egress>,
    /// How it ended at its provider.
    pub exit: Option<Exit>,
    /// What has come in the way of its work, so that the task is tried again when it is over; only the first counts.
    pub crashed: Option<String>,
}

impl SandboxChange {
    /// Whether the sandbox is completed with it, and what nobody has read is to be gone on with.
    pub fn completes(&self) -> bool {
        self.trigger == Some(SandboxTrigger::ResultRecorded) && !self.for_good
    }
}

/// Projects, tickets, tasks, sandboxes.
#[async_trait]
pub trait RegistryStore {
    /// Makes a project, or gives the one that has this repository path or URL already.
    async fn ensure_project(&self, project: NewProject) -> Result<Project>;
    /// The project that has this repository path or URL.
    async fn find_project_at(
        &self,
        repo_path: Option<&str>,
        repo_url: Option<&str>,
    ) -> Result<Option<Project>>;
    /// A project by id.
    async fn find_project(&self, id: &ProjectId) -> Result<Option<Project>>;
    /// Changes a project; [`crate::Error::NotFound`] without it.
    async fn update_project(&self, id: &ProjectId, patch: ProjectPatch) -> Result<Project>;
    /// Projects by id order after a cursor.
    async fn list_projects(
        &self,
        visible: Option<&[ProjectId]>,
        after: Option<&ProjectId>,
        limit: u32,
    ) -> Result<Vec<Project>>;

    /// Makes a ticket.
    async fn create_ticket(&self, ticket: NewTicket) -> Result<Ticket>;
    /// A ticket by id.
    async fn find_ticket(&self, id: &TicketId) -> Result<Option<Ticket>>;
    /// Tickets, newest first.
    async fn list_tickets(
        &self,
        project_id: Option<&ProjectId>,
        visible: Option<&[ProjectId]>,
        limit: u32,
    ) -> Result<Vec<Ticket>>;

    /// Makes a task.
    async fn create_task(&self, task: NewTask) -> Result<Task>;
    /// A task by id.
    async fn find_task(&self, id: &TaskId) -> Result<Option<Task>>;
    /// Tasks, newest first.
    async fn list_tasks(&self, filter: TaskFilter) -> Result<Vec<Task>>;

    /// Makes a sandbox row in state `pending` (`running` for the provider `external`, where nothing
    /// has to be brought up); claims and assigns its task.
    /// [`crate::Error::Conflict`] (`task_not_ready`) if the task is not pending.
    async fn create_sandbox(&self, sandbox: NewSandbox) -> Result<Sandbox>;
    /// Makes a ticket, a task and its first sandbox in one step, so that a refusal or a death leaves none of them.
    async fn create_work(&self, work: NewWork) -> Result<Sandbox>;
    /// A sandbox by id.
    async fn find_sandbox(&self, id: &SandboxId) -> Result<Option<Sandbox>>;
    /// Whether this writer still stands for the sandbox: [`crate::Error::Conflict`] `attempt_superseded`
    /// after a later attempt, `sandbox_ended` once the time for late events is over. Writes look for
    /// themselves, in their own transaction; this is for asking before.
    async fn check_standing(&self, id: &SandboxId, by: Writer) -> Result<()>;
    /// Sandboxes, newest first.
    async fn list_sandboxes(&self, filter: SandboxFilter) -> Result<Vec<Sandbox>>;
    /// Changes a sandbox and its task; an illegal step is a conflict and changes nothing.
    async fn change_sandbox(&self, id: &SandboxId, change: SandboxChange) -> Result<Sandbox>;
    /// Moves `alive_until` for sandboxes that were heard without writing an event.
    async fn touch_sandboxes(&self, heard: &[(SandboxId, Timestamp)]) -> Result<()>;
}

/// Which blobs exist and who may read them. The bytes are elsewhere.
#[async_trait]
pub trait BlobStore {
    /// Records that a sandbox (or, with none, an operator) stored a blob. Fenced like an event when the
    /// sandbox itself stores it.
    async fn record_blob(
        &self,
        hash: &BlobHash,
        size_bytes: i64,
        sandbox_id: Option<&SandboxId>,
        by: Writer,
    ) -> Result<()>;
    /// The sandboxes that stored it (`None` stands for an operator); empty if nobody did.
    async fn blob_owners(&self, hash: &BlobHash) -> Result<Vec<Option<SandboxId>>>;
}
