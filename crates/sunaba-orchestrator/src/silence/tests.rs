//! What is told and done on each rung, with a provider that only says what it was asked.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use sunaba_engine::SandboxTrigger;
use sunaba_sandbox::{
    CreateRequest, ExecRequest, ExecResult, Prepared, Provider, Report, StartRequest, Status,
};
use sunaba_store::{Append, Writer};
use sunaba_types::shim::ResourceUse;
use sunaba_types::{EventPayload, Isolation, NewEvent, Source, TaskState};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::bring_up::Gates;
use crate::{going_on, made};

type Answer<T> = Result<T, sunaba_sandbox::Error>;

/// Its sandbox lives until it is killed.
#[derive(Debug, Default)]
struct Stubborn {
    asked: Mutex<Vec<&'static str>>,
    is_away: AtomicBool,
    is_killed: AtomicBool,
}

impl Stubborn {
    fn note(&self, what: &'static str) {
        self.asked.lock().unwrap().push(what);
    }
}

const KILLED: Exit =
    Exit { code: None, signal: Some(9), oom_kills: 0, ended_for: None, killed_on_request: true, error: None };

#[async_trait]
impl Provider for Stubborn {
    fn name(&self) -> &'static str {
        "local"
    }

    async fn status(&self, id: &SandboxId) -> Answer<Status> {
        match (self.is_away.load(Ordering::SeqCst), self.is_killed.load(Ordering::SeqCst)) {
            (true, _) => Err(sunaba_sandbox::Error::NotFound(id.clone())),
            (false, true) => Ok(Status::Exited(KILLED)),
            (false, false) => Ok(Status::Running),
        }
    }

    async fn wait(&self, _: &SandboxId) -> Answer<Exit> {
        match self.is_killed.load(Ordering::SeqCst) {
            true => Ok(KILLED),
            false => std::future::pending().await,
        }
    }

    async fn terminate(&self, _: &SandboxId) -> Answer<()> {
        self.note("terminate");
        Ok(())
    }

    async fn kill(&self, _: &SandboxId) -> Answer<()> {
        self.note("kill");
        self.is_killed.store(true, Ordering::SeqCst);
        Ok(())
    }

    async fn create(&self, _: &SandboxId, _: &CreateRequest) -> Answer<Prepared> {
        unreachable!()
    }

    async fn find(&self, _: &SandboxId) -> Answer<Option<Prepared>> {
        unreachable!()
    }

    async fn start(&self, _: &SandboxId, _: StartRequest) -> Answer<()> {
        unreachable!()
    }

    async fn delete(&self, _: &SandboxId) -> Answer<()> {
        unreachable!()
    }

    async fn list(&self) -> Answer<Vec<SandboxId>> {
        unreachable!()
    }

    async fn output(&self, _: &SandboxId, _: u64, _: usize) -> Answer<Vec<u8>> {
        unreachable!()
    }

    async fn exec(&self, _: &SandboxId, _: ExecRequest) -> Answer<ExecResult> {
        unreachable!()
    }

    async fn write_file(&self, _: &SandboxId, _: &str, _: &[u8], _: u32) -> Answer<()> {
        unreachable!()
    }

    async fn read_file(&self, _: &SandboxId, _: &str, _: usize) -> Answer<Vec<u8>> {
        unreachable!()
    }

    async fn usage(&self, _: &SandboxId) -> Answer<ResourceUse> {
        unreachable!()
    }

    async fn isolation(&self) -> Answer<Isolation> {
        unreachable!()
    }

    async fn report(&self) -> Report {
        unreachable!()
    }
}

/// A sandbox that runs, its driver and its provider.
struct Case {
    driver: Driver,
    provider: Arc<Stubborn>,
    sandbox: Sandbox,
    /// Where the driver sees the row.
    seen: watch::Sender<Sandbox>,
}

impl Case {
    async fn running(dir: &std::path::Path) -> Self {
        let parts = Arc::new(made::parts(dir).await);
        let sandbox = made::sandbox(&parts).await;
        let create = SandboxChange { trigger: Some(SandboxTrigger::Create), ..SandboxChange::default() };
        parts.store.change_sandbox(&sandbox.id, create).await.unwrap();
        let provider = Arc::new(Stubborn::default());
        let (sender, row) = watch::channel(sandbox.clone());
        let driver = Driver {
            parts,
            gates: Arc::new(Gates { starts: Semaphore::new(1), setups: Semaphore::new(1) }),
            provider: provider.clone(),
            over: CancellationToken::new(),
            row,
            eyes: Eyes::default(),
        };
        let case = Self { driver, provider, sandbox, seen: sender };
        case.says("agent.started", &json!({ "heartbeat": "continuous" })).await;
        case.seen.send_replace(case.row().await);
        case
    }

    async fn says(&self, event_type: &str, data: &Value) {
        let event = NewEvent {
            event_id: sunaba_types::new_event_id(),
            event_type: event_type.to_owned(),
            source: Source::Agent,
            payload: EventPayload::from_value(data).unwrap(),
            step: None,
        };
        let writer = Writer::Sandbox { attempt: self.sandbox.attempt };
        let append = Append { sandbox_id: self.sandbox.id.clone(), writer, events: vec![event] };
        self.driver.parts.store.append(append).await.unwrap().remove(0).unwrap();
    }

    async fn row(&self) -> Sandbox {
        self.driver.parts.store.find_sandbox(&self.sandbox.id).await.unwrap().unwrap()
    }

    async fn up(&self, rung: Rung, seconds: u64) -> Option<Exit> {
        let step = Step::Up { rung, silent: Duration::from_secs(seconds) };
        self.driver.climb(&self.sandbox.id, step).await.unwrap()
    }

    /// What was told of its silence, oldest first.
    async fn told(&self) -> Vec<String> {
        let page = self.driver.parts.store.list_events(EventQuery::newest(self.sandbox.id.clone(), 100));
        let events = page.await.unwrap().events.into_iter().rev();
        let told = events.filter(|event| {
            event.event_type.starts_with("sandbox.") && event.event_type != "sandbox.state_changed"
        });
        told.map(|event| {
            assert_eq!(event.source, Source::System);
            event.event_type
        })
        .collect()
    }

    fn asked(&self) -> Vec<&'static str> {
        self.provider.asked.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_silent_sandbox_is_told_of_then_told_to_end_then_ended_and_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let case = Case::running(dir.path()).await;
    assert_eq!(case.up(Rung::Warned, 75).await, None);
    assert_eq!(case.up(Rung::Unresponsive, 113).await, None);
    assert!(case.asked().is_empty() && case.row().await.terms.crashed.is_none(), "nothing is done yet");
    assert_eq!(case.up(Rung::Interrupted, 150).await, None);
    assert_eq!(case.asked(), ["terminate"]);
    // It wakes up for a moment and tells of its end: that is no failure of its agent's.
    case.says("agent.failed", &json!({ "error": "told to end", "error_class": "cancelled" })).await;
    assert_eq!(case.row().await.state, SandboxState::Running);
    assert_eq!(case.up(Rung::Failed, 188).await, Some(KILLED));
    assert_eq!(case.asked(), ["terminate", "kill"]);
    assert_eq!(case.told().await, [WARNED, UNRESPONSIVE, INTERRUPTED]);

    let id = &case.sandbox.id;
    let Err(Error::Died(words)) = case.driver.after_exit(id, &KILLED, None).await else {
        panic!("it may be tried again")
    };
    assert!(words.starts_with("nothing was heard from the sandbox for 150 s"), "{words}");
    going_on::replace(&case.driver.parts, id, &words).await;
    let task = case.sandbox.task_id.as_ref().unwrap();
    let task = case.driver.parts.store.find_task(task).await.unwrap().unwrap();
    assert_eq!((task.status, task.attempt), (TaskState::Assigned, 2));
    let row = case.row().await;
    assert_eq!((row.state, row.reason), (SandboxState::Failed, Some(words)));
}

#[tokio::test]
async fn a_provider_that_does_not_answer_decides_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let case = Case::running(dir.path()).await;
    case.provider.is_away.store(true, Ordering::SeqCst);
    assert_eq!(case.up(Rung::Failed, 188).await, None);
    assert!(case.asked().is_empty());
    case.provider.is_away.store(false, Ordering::SeqCst);
    case.provider.is_killed.store(true, Ordering::SeqCst);
    for rung in [Rung::Unresponsive, Rung::Interrupted, Rung::Failed] {
        assert_eq!(case.up(rung, 188).await, None, "it has ended by itself");
    }
    assert!(case.asked().is_empty() && case.told().await.is_empty());
}

#[tokio::test]
async fn what_an_agent_that_is_done_has_made_is_not_thrown_away() {
    let dir = tempfile::tempdir().unwrap();
    let case = Case::running(dir.path()).await;
    case.says("agent.completed", &json!({ "success": true })).await;
    case.seen.send_replace(case.row().await);
    case.up(Rung::Interrupted, 150).await;
    assert_eq!(case.up(Rung::Failed, 188).await, Some(KILLED));
    let row = case.row().await;
    assert_eq!((row.state, row.terms.crashed), (SandboxState::Completing, None), "its result is recorded");
}

#[tokio::test]
async fn a_new_server_knows_what_was_told_and_judges_only_what_is_up() {
    let dir = tempfile::tempdir().unwrap();
    let case = Case::running(dir.path()).await;
    let (parts, id) = (&case.driver.parts, &case.sandbox.id);
    assert!(!is_told(parts, id).await);
    case.up(Rung::Warned, 75).await;
    assert!(is_told(parts, id).await);
    case.driver.climb(id, Step::HeardAgain).await.unwrap();
    assert!(!is_told(parts, id).await);
    assert_eq!(case.told().await, [WARNED, HEARD_AGAIN]);

    let row = case.row().await;
    assert!(is_judged(&row));
    for state in [SandboxState::Pending, SandboxState::Creating, SandboxState::Completed] {
        assert!(!is_judged(&Sandbox { state, ..row.clone() }), "{state}");
    }
    let mut waits = row;
    waits.terms.suspended = Some("it asks".to_owned());
    assert!(!is_judged(&waits));
}
