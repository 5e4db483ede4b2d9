//! Starts a run on a script and watches it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value};
use sunaba_agent::{
    AgentEvent, ApiKey, Asks, EventSink, Incoming, NativeConfig, NativeRuntime, NobodyToAsk, PermissionMode,
    RetryPolicy, RunContext, RunOutcome, Runtime, SessionStart, Transcript,
};
use sunaba_types::MessageType;
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::fake_model::{Act, FakeModel};

/// Room for a program that takes seconds to start on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);
pub(crate) const SESSION: &str = "7f9c2ba4-e88f-4d27-a8b6-5e3f6a0f1c11";

/// An event as it goes out on the wire.
pub(crate) type Told = (&'static str, Map<String, Value>);

pub(crate) struct Story {
    told: Mutex<Vec<Told>>,
    count: watch::Sender<usize>,
}

impl EventSink for Story {
    fn emit(&self, event: AgentEvent) {
        let mut told = self.told.lock().unwrap();
        told.push((event.event_type(), event.payload()));
        self.count.send_replace(told.len());
    }
}

pub(crate) struct Harness {
    pub(crate) dir: TempDir,
    pub(crate) home: TempDir,
    /// Where the runtime keeps what is its own: there, or where the setup says.
    pub(crate) home_path: PathBuf,
    pub(crate) model: FakeModel,
    story: Arc<Story>,
    inbox: mpsc::Sender<Incoming>,
    pub(crate) shutdown: CancellationToken,
    running: JoinHandle<RunOutcome>,
    kept: Mutex<Vec<TempDir>>,
}

/// What differs between runs.
pub(crate) struct Setup {
    pub(crate) prompt: &'static str,
    pub(crate) max_turns: u32,
    pub(crate) config: NativeConfig,
    pub(crate) model: &'static str,
    /// When it is not the fake model's.
    pub(crate) base_url: Option<String>,
    /// When it is not the native one.
    pub(crate) runtime: Option<Box<dyn Runtime>>,
    /// When another run is to be followed up in the same place.
    pub(crate) home: Option<PathBuf>,
    pub(crate) session_id: String,
    pub(crate) session: SessionStart,
    pub(crate) permission_mode: PermissionMode,
    pub(crate) asks: Arc<dyn Asks>,
}

impl Default for Setup {
    fn default() -> Self {
        let retry = RetryPolicy {
            max_attempts: 3,
            base_delay: Duration::from_millis(5),
            max_delay: Duration::from_millis(20),
            max_retry_after: Duration::from_secs(5),
        };
        Self {
            prompt: "do the thing",
            max_turns: 10,
            config: NativeConfig { retry, ..NativeConfig::default() },
            model: "fake",
            base_url: None,
            runtime: None,
            home: None,
            session_id: SESSION.to_owned(),
            session: SessionStart::New,
            permission_mode: PermissionMode::Bypass,
            asks: Arc::new(NobodyToAsk),
        }
    }
}

impl Harness {
    pub(crate) async fn start(acts: Vec<Act>) -> Self {
        Self::start_with(acts, Setup::default(), |_| ()).await
    }

    pub(crate) async fn start_in(acts: Vec<Act>, prepare: impl FnOnce(&Path)) -> Self {
        Self::start_with(acts, Setup::default(), prepare).await
    }

    pub(crate) async fn start_with(acts: Vec<Act>, setup: Setup, prepare: impl FnOnce(&Path)) -> Self {
        let dir = TempDir::new().unwrap();
        prepare(dir.path());
        Self::start_at(dir, acts, setup).await
    }

    /// In a place that is already there.
    pub(crate) async fn start_at(dir: TempDir, acts: Vec<Act>, setup: Setup) -> Self {
        let home = TempDir::new().unwrap();
        let home_path = setup.home.unwrap_or_else(|| home.path().to_owned());
        let model = FakeModel::start(acts).await;
        let story = Arc::new(Story { told: Mutex::new(Vec::new()), count: watch::Sender::new(0) });
        let (inbox, receiver) = mpsc::channel(16);
        let shutdown = CancellationToken::new();
        let context = RunContext {
            prompt: setup.prompt.to_owned(),
            model: setup.model.to_owned(),
            base_url: setup.base_url.unwrap_or_else(|| model.url.clone()),
            openai_base_url: model.openai_url.clone(),
            google_base_url: model.google_url.clone(),
            api_key: ApiKey::new("sandbox-token"),
            cwd: dir.path().to_owned(),
            home: home_path.clone(),
            session_id: setup.session_id,
            session: setup.session,
            permission_mode: setup.permission_mode,
            asks: setup.asks,
            max_turns: setup.max_turns,
            system_prompt: None,
            system_prompt_append: Some("be brief".to_owned()),
            events: Arc::clone(&story) as Arc<dyn EventSink>,
            inbox: receiver,
            shutdown: shutdown.clone(),
        };
        let runtime = setup.runtime.unwrap_or_else(|| Box::new(NativeRuntime::new(setup.config)));
        let running = tokio::spawn(runtime.run(context));
        Self { dir, home, home_path, model, story, inbox, shutdown, running, kept: Mutex::default() }
    }

    pub(crate) async fn send(&self, id: &str, message_type: MessageType, content: &str) {
        let message = Incoming {
            message_id: id.to_owned(),
            message_type,
            content: content.to_owned(),
            sender: "ada".to_owned(),
        };
        self.inbox.send(message).await.unwrap();
    }

    /// Waits for an event that fits.
    pub(crate) async fn until(&self, what: &str, fits: impl Fn(&Told) -> bool) -> Told {
        let mut count = self.story.count.subscribe();
        let found = timeout(DEADLINE, async {
            loop {
                if let Some(told) = self.story.told.lock().unwrap().iter().find(|told| fits(told)) {
                    return told.clone();
                }
                count.changed().await.unwrap();
            }
        });
        found.await.unwrap_or_else(|_| panic!("{what} did not come; the story: {:#?}", self.told()))
    }

    pub(crate) async fn until_type(&self, event_type: &str) -> Told {
        self.until(event_type, |told| told.0 == event_type).await
    }

    /// Waits until the model has been asked this often.
    pub(crate) async fn until_requests(&self, count: usize) {
        let asked = timeout(DEADLINE, async {
            while self.model.requests().len() < count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        asked.await.unwrap_or_else(|_| panic!("request {count} did not come: {:#?}", self.told()));
    }

    pub(crate) fn told(&self) -> Vec<Told> {
        self.story.told.lock().unwrap().clone()
    }

    pub(crate) fn told_of(&self, event_type: &str) -> Vec<Map<String, Value>> {
        self.told().into_iter().filter(|told| told.0 == event_type).map(|told| told.1).collect()
    }

    pub(crate) fn types(&self) -> Vec<&'static str> {
        self.told().into_iter().map(|told| told.0).collect()
    }

    /// What the session has left on disk by now, as somebody finds it who comes after a kill.
    pub(crate) fn transcript(&self) -> Transcript {
        let runtime = NativeRuntime::default();
        runtime.find_transcript(self.home.path(), self.dir.path(), SESSION).unwrap().unwrap()
    }

    /// Keeps a place for as long as this is there.
    pub(crate) fn keep(&self, place: TempDir) {
        self.kept.lock().unwrap().push(place);
    }

    /// Ends it as a machine that loses its power does.
    pub(crate) fn kill(&self) {
        self.running.abort();
    }

    /// Waits for the end.
    pub(crate) async fn outcome(&mut self) -> RunOutcome {
        match timeout(DEADLINE, &mut self.running).await {
            Ok(outcome) => outcome.unwrap(),
            Err(_) => panic!("the run did not end; the story: {:#?}", self.told()),
        }
    }
}

/// The blocks of the last message of a request.
pub(crate) fn last_blocks(request: &Value) -> Vec<Value> {
    let messages = request["messages"].as_array().unwrap();
    messages.last().unwrap()["content"].as_array().unwrap().clone()
}

/// The result of a tool in a request, and whether it is an error.
pub(crate) fn tool_result(request: &Value, id: &str) -> (String, bool) {
    let blocks = last_blocks(request);
    let block = blocks.iter().find(|block| block["tool_use_id"] == id);
    let block = block.unwrap_or_else(|| panic!("no result of {id} in {blocks:#?}"));
    (block["content"].as_str().unwrap().to_owned(), block["is_error"].as_bool().unwrap_or(false))
}
