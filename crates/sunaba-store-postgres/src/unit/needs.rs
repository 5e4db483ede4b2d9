//! What the jobs of a transaction work on, collected before the first lock is taken.

use std::collections::BTreeSet;

use sunaba_store::{Append, Writer};
use sunaba_types::{CallId, ProjectId, SandboxId, TaskId};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    pub(super) sandboxes: BTreeSet<String>,
    /// Sandboxes that may be made known by their first event.
    pub(super) registrable: BTreeSet<String>,
    /// Sandboxes whose project's sums are looked at too.
    pub(super) spenders: BTreeSet<String>,
    pub(super) tasks: BTreeSet<String>,
    pub(super) projects: BTreeSet<String>,
    pub(super) calls: BTreeSet<String>,
    /// Names of things that are made once.
    pub(super) names: BTreeSet<String>,
    /// Sandbox and event id, of events that may have been sent before.
    pub(super) events: Vec<(String, String)>,
}

impl Needs {
    /// A sandbox with its log and, if it has one, its task.
    pub(crate) fn sandbox(&mut self, id: &SandboxId) {
        self.sandboxes.insert(id.to_string());
    }

    /// The same and the sums of its project.
    pub(crate) fn spender(&mut self, id: &SandboxId) {
        self.sandbox(id);
        self.spenders.insert(id.to_string());
    }

    /// A task.
    pub(crate) fn task(&mut self, id: &TaskId) {
        self.tasks.insert(id.to_string());
    }

    /// A project that nobody else may change meanwhile.
    pub(crate) fn project(&mut self, id: &ProjectId) {
        self.projects.insert(id.to_string());
    }

    /// The sandbox that made this call, as a spender.
    pub(crate) fn call(&mut self, id: &CallId) {
        self.calls.insert(id.to_string());
    }

    /// Something that is about to be made, unless somebody else makes it.
    pub(crate) fn name(&mut self, kind: &str, name: &str) {
        self.names.insert(format!("{kind} {name}"));
    }

    /// Events for one sandbox; `look_up` whether their ids are taken.
    pub(crate) fn append(&mut self, append: &Append, look_up: bool) {
        self.sandbox(&append.sandbox_id);
        let key = append.sandbox_id.to_string();
        if append.writer == Writer::Registrar {
            self.registrable.insert(key.clone());
        }
        if look_up {
            self.events.extend(append.events.iter().map(|event| (key.clone(), event.event_id.clone())));
        }
    }
}
