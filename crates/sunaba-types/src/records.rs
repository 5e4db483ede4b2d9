//! The rows of the product: projects, tickets, tasks, sandboxes, tokens.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::egress::Egress;
use crate::execution::ExecutionConfig;
use crate::isolation::IsolationWanted;
use crate::session::Resume;
use crate::shim::Exit;
use crate::state::wire_enum;
use crate::{
    MessageId, NodeId, ProjectId, SandboxId, SandboxState, TaskId, TaskState, TicketId, TicketStatus,
    Timestamp, TokenId,
};

/// What may be set on a project. Later settings join here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProjectSettings {
    /// Which agent drives its sandboxes unless a call says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Which model it speaks to unless a call says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Host paths with toolchains that sandboxes may read (bound read-only).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub toolchains: Vec<String>,
    /// What makes its sandboxes unless a call says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// What its sandboxes may use unless a call says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesWanted>,
    /// The least isolation its sandboxes accept unless a call says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<IsolationWanted>,
    /// What one task may spend on models, all its attempts together, unless a call says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<f64>,
    /// What all its tasks together may spend on models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_budget_usd: Option<f64>,
    /// What its sandboxes may reach; `None` means that nobody has decided yet, and nothing is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<Egress>,
    /// Prepares a fresh clone (installs dependencies); guessed from lock files when absent, nothing when empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup_command: Option<String>,
    /// What the setup command may reach, when it is not what sandboxes may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup_egress: Option<Egress>,
    /// A directory on the server that is the root file system of its local sandboxes, instead of the host's `/usr`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_fs: Option<String>,
    /// The image of its container sandboxes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// How its agents work unless a call or a task says otherwise.
    #[serde(skip_serializing_if = "ExecutionConfig::is_empty")]
    pub execution_config: ExecutionConfig,
}

/// Resources of which some are given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourcesWanted {
    /// Memory in GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gb: Option<f64>,
    /// Processor cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Disk in GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_gb: Option<f64>,
}

impl ResourcesWanted {
    /// What is given, over what is the default.
    pub fn over(self, default: Resources) -> Resources {
        Resources {
            memory_gb: self.memory_gb.unwrap_or(default.memory_gb),
            cpu: self.cpu.unwrap_or(default.cpu),
            disk_gb: self.disk_gb.unwrap_or(default.disk_gb),
        }
    }
}

/// A git repository with its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
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
    /// The node that has its mirror; none until it is first needed.
    pub home_node: Option<NodeId>,
    /// When it was made.
    pub created_at: Timestamp,
}

wire_enum!(
    /// What kind of work a ticket wants; it names the branch.
    TicketType {
        /// Something new.
        Feature => "feature",
        /// Something broken.
        Bug => "bug",
        /// Something broken in production.
        Hotfix => "hotfix",
        /// The same behaviour in a better shape.
        Refactor => "refactor",
        /// Words about it.
        Docs => "docs",
        /// Tests of it.
        Test => "test",
        /// Upkeep.
        Chore => "chore",
    }
);

impl TicketType {
    /// The first part of the branch name.
    pub const fn branch_prefix(self) -> &'static str {
        match self {
            Self::Feature => "feature",
            Self::Bug => "fix",
            Self::Hotfix => "hotfix",
            Self::Refactor => "refactor",
            Self::Docs => "docs",
            Self::Test => "test",
            Self::Chore => "chore",
        }
    }
}

wire_enum!(
    /// How urgent work is.
    Priority {
        /// Before everything else.
        Critical => "CRITICAL",
        /// Soon.
        High => "HIGH",
        /// In its turn.
        Medium => "MEDIUM",
        /// When nothing else waits.
        Low => "LOW",
    }
);

/// A piece of wanted work; it owns a branch and a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Its id.
    pub id: TicketId,
    /// The repository it is about.
    pub project_id: ProjectId,
    /// In a few words.
    pub title: String,
    /// In as many as needed.
    pub description: String,
    /// What kind of work.
    #[serde(rename = "type")]
    pub ticket_type: TicketType,
    /// How urgent.
    pub priority: Priority,
    /// Where it stands.
    pub status: TicketStatus,
    /// The branch that holds the work.
    pub branch_name: Option<String>,
    /// Who asked for it: a token's name.
    pub owner: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

wire_enum!(
    /// What came of a completed task.
    Outcome {
        /// A branch with commits.
        Branch => "branch",
        /// The agent finished and changed nothing.
        NoChanges => "no_changes",
    }
);

/// One unit that an agent does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// The ticket it belongs to.
    pub ticket_id: TicketId,
    /// The project it belongs to.
    pub project_id: ProjectId,
    /// The phase of a spec, if it is one.
    pub phase_id: Option<String>,
    /// What kind of task.
    pub task_type: String,
    /// In a few words.
    pub title: String,
    /// What the agent is told.
    pub description: String,
    /// How urgent.
    pub priority: Priority,
    /// Where it is.
    pub status: TaskState,
    /// The sandbox of its present attempt.
    pub sandbox_id: Option<SandboxId>,
    /// The agent of its present attempt.
    pub assigned_agent_id: Option<String>,
    /// How many sandboxes were started for it; the fencing number.
    pub attempt: i64,
    /// What came of it.
    pub outcome: Option<Outcome>,
    /// What was produced.
    pub result: Option<serde_json::Value>,
    /// Why it failed.
    pub error_message: Option<String>,
    /// How its agent works unless a call says otherwise.
    #[serde(default)]
    pub execution_config: ExecutionConfig,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When its agent started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
}

/// What a sandbox may use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Memory in GiB.
    pub memory_gb: f64,
    /// Processor cores.
    pub cpu: f64,
    /// Disk in GiB.
    pub disk_gb: f64,
}

impl Default for Resources {
    fn default() -> Self {
        Self { memory_gb: 4.0, cpu: 2.0, disk_gb: 8.0 }
    }
}

/// On what terms a sandbox was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Terms {
    /// What its task may spend on models, all attempts together; `None` means no bound of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<f64>,
    /// How long its agent may work in it, all rounds together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i64>,
    /// The least isolation it accepts.
    pub isolation: IsolationWanted,
    /// Variables added to its environment. Never secret: they enter the sandbox.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What it may reach, as decided when it was brought up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<Egress>,
    /// Whose files it starts from; none starts from a branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_from: Option<FilesFrom>,
    /// How its agent works.
    #[serde(skip_serializing_if = "ExecutionConfig::is_empty")]
    pub execution_config: ExecutionConfig,
    /// The conversation that it goes on with; none begins a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    /// The message that its prompt says, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_message: Option<MessageId>,
    /// How long it waits for a follow-up when its agent is done; `None` means as long as the server says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow_up_seconds: Option<i64>,
    /// The attempt that it goes on after, and whose files it starts from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<SandboxId>,
    /// How many attempts before this one died in a row.
    #[serde(skip_serializing_if = "is_zero")]
    pub deaths: i64,
    /// How many attempts before this one were lost in a row with the machines they ran on.
    #[serde(skip_serializing_if = "is_zero")]
    pub losses: i64,
    /// Why its place is being given up while its task waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended: Option<String>,
    /// How its agent's program ended in the middle of the work. It is about to end itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crashed: Option<String>,
    /// How long its task has waited, or is to wait, for vendors' limits since somebody last spoke to it, in milliseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub quota_wait_ms: i64,
    /// How long its agent worked, in milliseconds, before it was done for the last time.
    #[serde(skip_serializing_if = "is_zero")]
    pub worked_ms: i64,
}

/// The files of another sandbox, as they were after an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesFrom {
    /// The other sandbox.
    pub sandbox_id: SandboxId,
    /// The place of the event that told of them; none for where that one started itself.
    pub seq: Option<i64>,
    /// Their tree, or the commit that the other one started from.
    pub tree: String,
    /// The commit that the other one started from.
    pub base_commit: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            budget_usd: None,
            timeout_seconds: None,
            isolation: IsolationWanted::Sampled,
            env: BTreeMap::new(),
            egress: None,
            files_from: None,
            execution_config: ExecutionConfig::default(),
            resume: None,
            prompt_message: None,
            follow_up_seconds: None,
            after: None,
            deaths: 0,
            losses: 0,
            suspended: None,
            crashed: None,
            quota_wait_ms: 0,
            worked_ms: 0,
        }
    }
}

/// One attempt at one task in one isolated machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sandbox {
    /// Its id.
    pub id: SandboxId,
    /// The project it works on; none for an external one that registered itself.
    pub project_id: Option<ProjectId>,
    /// The task it works on.
    pub task_id: Option<TaskId>,
    /// Which attempt at that task it is.
    pub attempt: i64,
    /// What makes it: `local`, `external`, later others.
    pub provider: String,
    /// The provider's own name for it, written before the provider is asked.
    pub provider_ref: Option<String>,
    /// The node whose provider holds it; none while it waits to be taken up, and for an external one.
    pub node_id: Option<NodeId>,
    /// Where it is.
    pub state: SandboxState,
    /// Since when.
    pub state_entered_at: Timestamp,
    /// Why it failed or was cancelled.
    pub reason: Option<String>,
    /// Which agent drives it.
    pub runtime: String,
    /// Which model it speaks to.
    pub model: String,
    /// What the agent is told.
    pub prompt: String,
    /// The branch it works on.
    pub branch_name: Option<String>,
    /// The commit it started from.
    pub base_commit: Option<String>,
    /// The commit it ended with, as the server saw it pushed.
    pub head_commit: Option<String>,
    /// How well it is shut in, as measured.
    pub isolation: Option<String>,
    /// What it may use.
    pub resources: Resources,
    /// On what terms it was asked for.
    pub terms: Terms,
    /// How it ended at its provider.
    pub exit: Option<Exit>,
    /// What its model calls cost so far, settled ones, in millionths of a dollar.
    pub cost_micros: i64,
    /// Until when it counts as alive without another sign.
    pub alive_until: Option<Timestamp>,
    /// How long it may be silent, in seconds.
    pub silence_seconds: i64,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

wire_enum!(
    /// What a token opens.
    TokenKind {
        /// Everything.
        Admin => "admin",
        /// Its scopes in its projects.
        Personal => "personal",
        /// Its own sandbox, and only the worker's routes.
        Sandbox => "sandbox",
    }
);

/// A token's row. The token itself is never stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// Its public name.
    pub id: TokenId,
    /// What people call it.
    pub name: String,
    /// What it opens.
    pub kind: TokenKind,
    /// For a personal token: `read`, `write`.
    pub scopes: Vec<String>,
    /// For a personal token: the projects; empty means all.
    pub projects: Vec<ProjectId>,
    /// For a sandbox token: the sandbox.
    pub sandbox_id: Option<SandboxId>,
    /// For a sandbox token: the attempt it is bound to.
    pub attempt: Option<i64>,
    /// When it was made.
    pub created_at: Timestamp,
    /// After this it opens nothing.
    pub expires_at: Option<Timestamp>,
    /// Since when it opens nothing.
    pub revoked_at: Option<Timestamp>,
}
