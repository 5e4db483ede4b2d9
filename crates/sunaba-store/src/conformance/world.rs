//! A fresh store with a clock that cases move, and the words cases are written in.

use std::any::Any;
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};
use sunaba_engine::{SandboxTrigger, TaskTrigger};
use sunaba_types::{
    EventPayload, ExecutionConfig, FakeClock, MessageType, NewEvent, NewMessage, Priority, Project,
    ProjectSettings, Resources, Sandbox, SandboxId, Source, StoredEvent, Task, TaskId, Terms, TicketType,
    Timestamp,
};

use crate::{
    Append, AppendOutcome, Appended, FeedEntry, NewProject, NewSandbox, NewTask, NewTicket, SandboxChange,
    Store, TakeMode, Writer,
};

/// A fresh store for one case.
#[derive(Debug)]
pub struct World {
    /// The store under test.
    pub store: Arc<dyn Store>,
    /// The clock it was opened with.
    pub clock: Arc<FakeClock>,
    /// Whatever must live as long as the store (a temporary directory).
    _guard: Box<dyn Any + Send + Sync>,
}

impl World {
    /// Brings a store into the suite.
    pub fn new(store: Arc<dyn Store>, clock: Arc<FakeClock>, guard: impl Any + Send + Sync) -> Self {
        Self { store, clock, _guard: Box::new(guard) }
    }

    /// The clock a store is to be opened with.
    pub fn clock() -> Arc<FakeClock> {
        let start = Timestamp::from_second(1_800_000_000).expect("a moment in 2027");
        Arc::new(FakeClock::at(start))
    }

    pub(super) fn pass(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    pub(super) async fn append(
        &self,
        id: &SandboxId,
        writer: Writer,
        events: Vec<NewEvent>,
    ) -> Vec<AppendOutcome> {
        let append = Append { sandbox_id: id.clone(), writer, events };
        self.store.append(append).await.expect("the store is up")
    }

    /// Appends one event as a registrar; it must be taken.
    pub(super) async fn post(&self, id: &SandboxId, event: NewEvent) -> Appended {
        let mut outcomes = self.append(id, Writer::Registrar, vec![event]).await;
        assert_eq!(outcomes.len(), 1);
        outcomes.remove(0).expect("the event is taken")
    }

    /// An external sandbox with no event but the given ones.
    pub(super) async fn external(&self, events: Vec<NewEvent>) -> SandboxId {
        let id = SandboxId::generate();
        let wanted = events.len();
        let outcomes = self.append(&id, Writer::Registrar, events).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), wanted);
        id
    }

    /// More events for it.
    pub(super) async fn external_more(&self, id: &SandboxId, events: Vec<NewEvent>) {
        let outcomes = self.append(id, Writer::Registrar, events).await;
        assert!(outcomes.iter().all(Result::is_ok));
    }

    pub(super) async fn project(&self, path: &str) -> Project {
        let project = NewProject {
            name: path.trim_start_matches('/').to_owned(),
            repo_path: Some(path.to_owned()),
            repo_url: None,
            default_branch: "main".to_owned(),
            settings: ProjectSettings::default(),
        };
        self.store.ensure_project(project).await.expect("a project")
    }

    pub(super) async fn remote_project(&self, url: &str) -> Project {
        let project = NewProject {
            name: "elsewhere".to_owned(),
            repo_path: None,
            repo_url: Some(url.to_owned()),
            default_branch: "main".to_owned(),
            settings: ProjectSettings::default(),
        };
        self.store.ensure_project(project).await.expect("a project")
    }

    pub(super) async fn task_in(&self, project: &Project) -> Task {
        let ticket = NewTicket {
            project_id: project.id.clone(),
            title: "a ticket".to_owned(),
            description: String::new(),
            ticket_type: TicketType::Feature,
            priority: Priority::Medium,
            owner: "tester".to_owned(),
        };
        let ticket = self.store.create_ticket(ticket).await.expect("a ticket");
        let task = NewTask {
            ticket_id: ticket.id,
            task_type: "implement".to_owned(),
            title: "a task".to_owned(),
            description: "do it".to_owned(),
            priority: Priority::High,
            execution_config: ExecutionConfig { max_turns: Some(7), ..ExecutionConfig::default() },
        };
        self.store.create_task(task).await.expect("a task")
    }

    pub(super) async fn task(&self) -> Task {
        let project = self.project("/repo").await;
        self.task_in(&project).await
    }

    /// A pending sandbox for a task.
    pub(super) async fn assign(&self, task: &TaskId) -> Sandbox {
        self.store.create_sandbox(new_sandbox(Some(task.clone()))).await.expect("a sandbox")
    }

    /// A sandbox for a task on these terms.
    pub(super) async fn assign_on(&self, task: &TaskId, terms: Terms) -> Sandbox {
        let sandbox = NewSandbox { terms, ..new_sandbox(Some(task.clone())) };
        self.store.create_sandbox(sandbox).await.expect("a sandbox")
    }

    /// A task and its sandbox, which is being created.
    pub(super) async fn creating(&self) -> (Task, Sandbox) {
        let task = self.task().await;
        let sandbox = self.assign(&task.id).await;
        (self.get_task(&task.id).await, self.step(&sandbox.id, SandboxTrigger::Create).await)
    }

    /// A task and its sandbox, whose agent has started.
    pub(super) async fn running(&self) -> (Task, Sandbox) {
        let (task, sandbox) = self.creating().await;
        let started = self.append(&sandbox.id, own(&sandbox), vec![event("agent.started", json!({}))]).await;
        assert!(started[0].is_ok());
        (self.get_task(&task.id).await, self.get_sandbox(&sandbox.id).await)
    }

    pub(super) async fn step(&self, id: &SandboxId, trigger: SandboxTrigger) -> Sandbox {
        let change = SandboxChange { trigger: Some(trigger), ..SandboxChange::default() };
        self.store.change_sandbox(id, change).await.expect("a legal step")
    }

    /// Ends a sandbox and its task as failed and makes the task pending again.
    pub(super) async fn fail_and_retry(&self, id: &SandboxId) {
        let failed = SandboxChange {
            trigger: Some(SandboxTrigger::Fail),
            task_trigger: Some(TaskTrigger::Fail),
            reason: Some("lost".to_owned()),
            ..SandboxChange::default()
        };
        self.store.change_sandbox(id, failed).await.expect("it can fail");
        let retry = SandboxChange { task_trigger: Some(TaskTrigger::Retry), ..SandboxChange::default() };
        self.store.change_sandbox(id, retry).await.expect("it can be retried");
    }

    pub(super) async fn get_sandbox(&self, id: &SandboxId) -> Sandbox {
        self.store.find_sandbox(id).await.expect("the store is up").expect("the sandbox exists")
    }

    pub(super) async fn get_task(&self, id: &TaskId) -> Task {
        self.store.find_task(id).await.expect("the store is up").expect("the task exists")
    }

    /// The whole log, oldest first, in small pages.
    pub(super) async fn log(&self, id: &SandboxId) -> Vec<StoredEvent> {
        let mut log: Vec<StoredEvent> = Vec::new();
        loop {
            let after = log.last().map_or(0, |event| event.seq);
            let page = self.store.events_after(id, after, 7).await.expect("the store is up");
            if page.is_empty() {
                return log;
            }
            log.extend(page);
        }
    }

    /// The whole feed after a position, in small pages.
    pub(super) async fn feed(&self, mut after: i64) -> Vec<Arc<FeedEntry>> {
        let mut feed: Vec<Arc<FeedEntry>> = Vec::new();
        loop {
            let page = self.store.feed_after(after, 5).await.expect("the store is up");
            let Some(last) = page.last() else { return feed };
            after = last.position;
            feed.extend(page);
        }
    }

    pub(super) async fn say(
        &self,
        id: &SandboxId,
        kind: MessageType,
        content: &str,
    ) -> sunaba_types::Message {
        let message = NewMessage {
            sandbox_id: id.clone(),
            content: content.to_owned(),
            message_type: kind,
            sender: "tester".to_owned(),
        };
        self.store.queue_message(message).await.expect("the message is queued").message
    }

    /// What an explicit poll gets, as contents.
    pub(super) async fn poll(&self, id: &SandboxId, acknowledged: &[&sunaba_types::Message]) -> Vec<String> {
        let acknowledged = acknowledged.iter().map(|message| message.id.clone()).collect();
        self.take(id, TakeMode::Explicit { acknowledged, again: false }).await
    }

    pub(super) async fn take(&self, id: &SandboxId, mode: TakeMode) -> Vec<String> {
        let taken = self.store.take_messages(id, Writer::Operator, mode).await.expect("the store is up");
        taken.into_iter().map(|message| message.content).collect()
    }
}

/// The sandbox's own voice.
pub(super) fn own(sandbox: &Sandbox) -> Writer {
    Writer::Sandbox { attempt: sandbox.attempt }
}

pub(super) fn new_sandbox(task_id: Option<TaskId>) -> NewSandbox {
    NewSandbox {
        project_id: None,
        task_id,
        provider: "local".to_owned(),
        runtime: "native".to_owned(),
        model: "script:default".to_owned(),
        prompt: "do it".to_owned(),
        resources: Resources::default(),
        terms: Terms::default(),
    }
}

/// An event of the agent with a fresh id.
pub(super) fn event(event_type: &str, payload: Value) -> NewEvent {
    event_with_id(&uuid::Uuid::now_v7().to_string(), event_type, payload)
}

pub(super) fn event_with_id(id: &str, event_type: &str, payload: Value) -> NewEvent {
    NewEvent {
        event_id: id.to_owned(),
        event_type: event_type.to_owned(),
        source: Source::Agent,
        payload: EventPayload::from_value(&payload).expect("a payload is an object"),
        step: None,
    }
}

/// Events `first..=last` of one type, numbered in their payload.
pub(super) fn numbered(event_type: &str, numbers: std::ops::RangeInclusive<i64>) -> Vec<NewEvent> {
    numbers.map(|n| event(event_type, json!({"n": n}))).collect()
}

pub(super) fn seqs(events: &[StoredEvent]) -> Vec<i64> {
    events.iter().map(|event| event.seq).collect()
}

pub(super) fn types(events: &[StoredEvent]) -> Vec<&str> {
    events.iter().map(|event| event.event_type.as_str()).collect()
}

/// Checks numbers and hashes of a whole log.
pub(super) fn assert_chain(log: &[StoredEvent]) {
    let mut previous = sunaba_types::chain::GENESIS;
    for (event, expected) in log.iter().zip(1..) {
        assert_eq!(event.seq, expected, "numbers have no gaps");
        assert_eq!(event.payload_hash, event.payload.hash(), "payload of {}", event.seq);
        assert_eq!(event.hash, event.expected_hash(&previous), "hash of {}", event.seq);
        previous = event.hash;
    }
}
