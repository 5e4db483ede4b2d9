//! What a caller was recognised as.

use std::sync::Arc;

use sunaba_store::Writer;
use sunaba_types::{ProjectId, SandboxId, Source};

/// What a personal token opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// May look.
    pub read: bool,
    /// May change.
    pub write: bool,
    /// In these projects; empty means all.
    pub projects: Vec<ProjectId>,
}

/// What a sandbox token opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxGrant {
    /// Its sandbox.
    pub sandbox_id: SandboxId,
    /// The project that sandbox works on.
    pub project_id: Option<ProjectId>,
    /// The attempt it is bound to.
    pub attempt: i64,
}

/// What kind of caller this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Anyone, on a server without authentication.
    Open,
    /// An administrator.
    Admin,
    /// A person or a program of theirs.
    Personal(Arc<Grant>),
    /// A worker in its sandbox.
    Sandbox(Arc<SandboxGrant>),
}

/// A recognised caller.
#[derive(Debug, Clone)]
pub struct Identity {
    /// What kind.
    pub role: Role,
    /// What people call the token.
    pub name: Arc<str>,
    /// Which bucket its requests count in.
    pub(crate) rate_key: u64,
}

impl Identity {
    /// Anyone, on a server without authentication.
    pub fn open() -> Self {
        Self { role: Role::Open, name: Arc::from("local"), rate_key: 0 }
    }

    /// Whether everything is open to it.
    pub const fn is_admin(&self) -> bool {
        matches!(self.role, Role::Open | Role::Admin)
    }

    /// The sandbox it is the worker of.
    pub fn sandbox(&self) -> Option<&SandboxGrant> {
        match &self.role {
            Role::Sandbox(grant) => Some(grant),
            Role::Open | Role::Admin | Role::Personal(_) => None,
        }
    }

    /// Whether it may look at things of this project (`None`: things of no project).
    pub fn sees_project(&self, project_id: Option<&ProjectId>) -> bool {
        match &self.role {
            Role::Open | Role::Admin => true,
            Role::Personal(grant) => {
                grant.projects.is_empty() || project_id.is_some_and(|id| grant.projects.contains(id))
            }
            Role::Sandbox(_) => false,
        }
    }

    /// The projects it is limited to; `None` means all.
    pub fn visible_projects(&self) -> Option<Vec<ProjectId>> {
        match &self.role {
            Role::Open | Role::Admin => None,
            Role::Personal(grant) if grant.projects.is_empty() => None,
            Role::Personal(grant) => Some(grant.projects.clone()),
            Role::Sandbox(grant) => Some(grant.project_id.iter().cloned().collect()),
        }
    }

    /// Whether a message poll of this caller counts as the sandbox's own.
    pub fn takes_messages_of(&self, sandbox_id: &SandboxId) -> bool {
        match &self.role {
            Role::Open => true,
            Role::Sandbox(grant) => grant.sandbox_id == *sandbox_id,
            Role::Admin | Role::Personal(_) => false,
        }
    }

    /// On whose behalf it appends events.
    pub fn event_writer(&self, auto_register: bool) -> Writer {
        match &self.role {
            Role::Open | Role::Admin => Writer::Registrar,
            Role::Personal(grant) if auto_register && grant.projects.is_empty() => Writer::Registrar,
            Role::Personal(_) => Writer::Operator,
            Role::Sandbox(grant) => Writer::Sandbox { attempt: grant.attempt },
        }
    }

    /// Whether it may speak with this voice.
    pub const fn may_speak_as(&self, source: Source) -> bool {
        match self.role {
            Role::Sandbox(_) => source.allowed_from_sandbox(),
            Role::Open | Role::Admin | Role::Personal(_) => true,
        }
    }
}
