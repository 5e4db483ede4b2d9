//! A gateway on an ephemeral port, with a project, a task, its sandbox and its mirror.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::extract::Request;
use axum::middleware::Next;
use futures::StreamExt as _;
use serde_json::{Value, json};
use sunaba_gateway::{
    Caller, GatewayConfig, GatewayState, PriceTable, PushRoom, ScriptSource, Upstream, router,
};
use sunaba_git::{Mirror, ProjectLocks};
use sunaba_secrets::{SecretKey, Secrets, Vault};
use sunaba_store::{EventQuery, NewProject, NewSandbox, NewTask, NewTicket, SandboxChange, Spender, Store};
use sunaba_types::{
    BlobHash, Priority, ProjectId, ProjectSettings, Resources, Sandbox, SandboxId, SystemClock, Terms,
    TicketType,
};
use tempfile::TempDir;

pub(crate) const BRANCH: &str = "feature/1-x";
/// One dollar for a million tokens in, ten for a million out.
const PRICES: &str = "built_in: false\nmodels: {'claude-*': {input: 1, output: 10, max_output: 10000}, 'gpt-*': {input: 1, output: 10, max_output: 10000}, 'gemini-*': {input: 1, output: 10, max_output: 10000}}";

#[derive(Default)]
struct Scripts(Mutex<HashMap<String, Vec<u8>>>);

impl Scripts {
    /// Keeps a script; the model that it is.
    fn keep(&self, script: &str) -> String {
        let hash = BlobHash::of(script.as_bytes());
        self.0.lock().unwrap().insert(hash.as_str().to_owned(), script.as_bytes().to_vec());
        format!("script:{hash}")
    }
}

#[async_trait]
impl ScriptSource for Scripts {
    async fn load(&self, hash: &BlobHash) -> io::Result<Vec<u8>> {
        let found = self.0.lock().unwrap().get(hash.as_str()).cloned();
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such blob"))
    }
}

pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) project: ProjectId,
    pub(crate) sandbox: Sandbox,
    pub(crate) mirror: Mirror,
    pub(crate) base: String,
    pub(crate) caller: Arc<Mutex<Caller>>,
    pub(crate) state: GatewayState,
    /// The git locks that the gateway takes.
    pub(crate) locks: Arc<ProjectLocks>,
    pushes: Arc<AtomicUsize>,
}

/// How a world differs from the usual one.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) model: String,
    pub(crate) script: Option<String>,
    pub(crate) upstream: Option<String>,
    pub(crate) prices: Option<&'static str>,
    pub(crate) budget_usd: Option<f64>,
    /// Whether the project has a key of its own, `project-key`.
    pub(crate) has_project_key: bool,
    pub(crate) push_room: PushRoom,
}

impl World {
    /// A sandbox whose model is this script.
    pub(crate) async fn scripted(script: &str) -> Self {
        Self::new(Setup { script: Some(script.to_owned()), ..Setup::default() }).await
    }

    /// A sandbox whose model is this one.
    pub(crate) async fn with_model(model: &str) -> Self {
        Self::new(Setup { model: model.to_owned(), ..Setup::default() }).await
    }

    /// A sandbox whose model is reached at this address with the key `real-key`.
    pub(crate) async fn with_upstream(base_url: &str) -> Self {
        Self::new(Setup { upstream: Some(base_url.to_owned()), ..Setup::default() }).await
    }

    /// The same, with so much to spend.
    pub(crate) async fn with_budget(base_url: &str, budget_usd: f64) -> Self {
        let upstream = Some(base_url.to_owned());
        Self::new(Setup { upstream, budget_usd: Some(budget_usd), ..Setup::default() }).await
    }

    pub(crate) async fn new(setup: Setup) -> Self {
        Self::in_dir(TempDir::new().unwrap(), setup).await
    }

    pub(crate) async fn in_dir(dir: TempDir, setup: Setup) -> Self {
        let repo = dir.path().join("repo");
        std::fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "-q", "-b", "main"]);
        commit(&repo, "README.md", "hello\n");
        let store = open_store(dir.path()).await;
        let scripts = Scripts::default();
        let model = match &setup.script {
            Some(script) => scripts.keep(script),
            None if setup.upstream.is_some() => "claude-real".to_owned(),
            None => setup.model.clone(),
        };
        let (project, sandbox) = make_sandbox(&*store, &repo, &model, setup.budget_usd).await;
        let mirror = Mirror::ensure(dir.path().join(format!("git/{project}.git")), repo.to_str().unwrap())
            .await
            .unwrap();
        mirror.fetch().await.unwrap();
        mirror.create_branch(BRANCH, "main").await.unwrap();
        let caller = Caller {
            sandbox_id: sandbox.id.clone(),
            project_id: Some(project.clone()),
            attempt: sandbox.attempt,
        };
        let caller = Arc::new(Mutex::new(caller));
        let mut config = config(&store, dir.path(), scripts);
        let locks = Arc::clone(&config.locks);
        let base_url = setup.upstream.clone().unwrap_or_else(|| "http://127.0.0.1:9".to_owned());
        let api_key = setup.upstream.is_some().then(|| "real-key".into());
        config.anthropic = Upstream { base_url: base_url.clone(), api_key: api_key.clone() };
        config.openai = Upstream { base_url: format!("{base_url}/v1/"), api_key: api_key.clone() };
        config.google = Upstream { base_url: format!("{base_url}/v1beta"), api_key };
        config.push_room = setup.push_room;
        config.prices = PriceTable::parse(setup.prices.unwrap_or(PRICES)).unwrap();
        if setup.has_project_key {
            config.secrets = Some(project_keys(&store, dir.path(), &project).await);
        }
        let state = GatewayState::new(config).unwrap();
        let pushes = Arc::new(AtomicUsize::new(0));
        let routes = counted(routes(&state), Arc::clone(&pushes));
        let base = serve(routes, Arc::clone(&caller)).await;
        Self { dir, store, project, sandbox, mirror, base, caller, state, locks, pushes }
    }

    /// How many pushes have arrived whole.
    pub(crate) fn pushes_arrived(&self) -> usize {
        self.pushes.load(Ordering::SeqCst)
    }

    /// Another sandbox of the same project, for a task of its own; the address where it is served.
    pub(crate) async fn another_sandbox(&self) -> (Sandbox, String) {
        let repo = self.path("repo");
        let (project, sandbox) = make_sandbox(&*self.store, &repo, &self.sandbox.model, None).await;
        assert_eq!(project, self.project);
        let caller =
            Caller { sandbox_id: sandbox.id.clone(), project_id: Some(project), attempt: sandbox.attempt };
        let base = serve(routes(&self.state), Arc::new(Mutex::new(caller))).await;
        (sandbox, base)
    }

    pub(crate) fn git_url(&self) -> String {
        format!("{}/gateway/git/{}", self.base, self.project)
    }

    /// Makes the next sandbox for the same task.
    pub(crate) async fn start_next_attempt(&self) -> Sandbox {
        let next = NewSandbox {
            project_id: Some(self.project.clone()),
            task_id: self.sandbox.task_id.clone(),
            provider: "local".into(),
            runtime: "native".into(),
            model: self.sandbox.model.clone(),
            prompt: "do it".into(),
            resources: Resources::default(),
            terms: sunaba_types::Terms::default(),
        };
        let store: &dyn Store = &*self.store;
        store.create_sandbox(next).await.unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Posts a model request and gives status and body.
    pub(crate) async fn ask(&self, body: &Value) -> (u16, String) {
        self.ask_at("anthropic/v1/messages", body).await
    }

    /// Posts a model request below the gateway and gives status and body.
    pub(crate) async fn ask_at(&self, path: &str, body: &Value) -> (u16, String) {
        let url = format!("{}/gateway/{path}", self.base);
        let client = reqwest::Client::new();
        let answer = client.post(url).header("x-api-key", "sandbox-token").json(body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// What the sandbox's task has spent and reserved, in millionths of a dollar.
    pub(crate) async fn spent(&self) -> (i64, i64) {
        let task = self.sandbox.task_id.clone().unwrap();
        let spending = self.store.spending(&Spender::Task(task)).await.unwrap();
        (spending.cost_micros, spending.reserved_micros)
    }

    /// Waits until the sandbox's log holds `count` events of a type; gives their data, oldest first.
    pub(crate) async fn events(&self, event_type: &str, count: usize) -> Vec<Value> {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        loop {
            let query =
                EventQuery { event_types: vec![event_type.to_owned()], ..all_events(&self.sandbox.id) };
            let page = self.store.list_events(query).await.unwrap();
            let mut found: Vec<Value> = page.events.iter().map(|event| event.payload.to_value()).collect();
            if found.len() >= count {
                assert_eq!(found.len(), count, "{found:#?}");
                found.reverse();
                return found;
            }
            assert!(tokio::time::Instant::now() < deadline, "only {} {event_type}", found.len());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn all_events(sandbox_id: &SandboxId) -> EventQuery {
    EventQuery {
        sandbox_id: sandbox_id.clone(),
        event_types: Vec::new(),
        exclude_types: Vec::new(),
        contains: None,
        after_seq: None,
        before_seq: None,
        offset: 0,
        limit: 500,
    }
}

fn routes(state: &GatewayState) -> Router {
    Router::new().nest("/gateway", router(state.clone()))
}

/// Counts the pushes whose last byte was handed to the gateway.
fn counted(router: Router, pushes: Arc<AtomicUsize>) -> Router {
    router.layer(axum::middleware::from_fn(move |request: Request, next: Next| {
        let pushes = Arc::clone(&pushes);
        let is_push = request.uri().path().ends_with("/git-receive-pack");
        let request = request.map(|body| {
            let end = futures::stream::poll_fn(move |_| {
                pushes.fetch_add(usize::from(is_push), Ordering::SeqCst);
                std::task::Poll::Ready(None)
            });
            axum::body::Body::from_stream(body.into_data_stream().chain(end))
        });
        next.run(request)
    }))
}

/// The store of a world, opened anew.
pub(crate) async fn open_store(dir: &Path) -> Arc<dyn Store> {
    sunaba_testkit::open_store(dir, Arc::new(SystemClock)).await
}

/// A gateway over a world's store.
pub(crate) fn gateway_over(store: &Arc<dyn Store>, dir: &Path) -> GatewayState {
    GatewayState::new(config(store, dir, Scripts::default())).unwrap()
}

fn config(store: &Arc<dyn Store>, dir: &Path, scripts: Scripts) -> GatewayConfig {
    GatewayConfig::new(Arc::clone(store), dir.join("git"), Arc::default(), Arc::new(scripts))
}

async fn project_keys(store: &Arc<dyn Store>, dir: &Path, project: &ProjectId) -> Secrets {
    let key = SecretKey::read_or_make(&dir.join("secret.key")).unwrap();
    let secrets = Secrets::open(Arc::clone(store), Vault::new(&key)).await.unwrap();
    for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"] {
        secrets.put(project, name, &"project-key".into()).await.unwrap();
    }
    secrets
}

async fn make_sandbox(
    store: &dyn Store,
    repo: &Path,
    model: &str,
    budget_usd: Option<f64>,
) -> (ProjectId, Sandbox) {
    let project = NewProject {
        name: "p".into(),
        repo_path: Some(repo.display().to_string()),
        repo_url: None,
        default_branch: "main".into(),
        settings: ProjectSettings::default(),
    };
    let project = store.ensure_project(project).await.unwrap();
    let ticket = NewTicket {
        project_id: project.id.clone(),
        title: "t".into(),
        description: String::new(),
        ticket_type: TicketType::Feature,
        priority: Priority::Medium,
        owner: "me".into(),
    };
    let ticket = store.create_ticket(ticket).await.unwrap();
    let task = NewTask {
        ticket_id: ticket.id,
        task_type: "implement".into(),
        title: "t".into(),
        description: String::new(),
        priority: Priority::Medium,
        execution_config: sunaba_types::ExecutionConfig::default(),
    };
    let task = store.create_task(task).await.unwrap();
    let sandbox = NewSandbox {
        project_id: Some(project.id.clone()),
        task_id: Some(task.id),
        provider: "local".into(),
        runtime: "native".into(),
        model: model.to_owned(),
        prompt: "do it".into(),
        resources: Resources::default(),
        terms: Terms { budget_usd, ..Terms::default() },
    };
    let sandbox = store.create_sandbox(sandbox).await.unwrap();
    let change = SandboxChange { branch_name: Some(BRANCH.into()), ..SandboxChange::default() };
    (project.id, store.change_sandbox(&sandbox.id, change).await.unwrap())
}

/// Serves a router on an ephemeral port; every request comes from `caller`.
async fn serve(router: Router, caller: Arc<Mutex<Caller>>) -> String {
    let router = router.layer(axum::middleware::from_fn(move |mut request: Request, next: Next| {
        request.extensions_mut().insert(caller.lock().unwrap().clone());
        next.run(request)
    }));
    listen(router).await
}

/// Serves a router on an ephemeral port.
pub(crate) async fn listen(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

/// A request as a runtime sends it: what was said so far, and two tools.
pub(crate) fn request(messages: Value) -> Value {
    let tool = |name: &str, keys: &[&str]| {
        let properties: serde_json::Map<String, Value> =
            keys.iter().map(|key| ((*key).to_owned(), json!({"type": "string"}))).collect();
        json!({"name": name, "description": "", "input_schema": {"type": "object", "properties": properties}})
    };
    json!({
        "model": "claude-x",
        "max_tokens": 100,
        "system": "You are an agent.",
        "messages": messages,
        "tools": [tool("Bash", &["command"]), tool("Write", &["file_path", "content"])],
    })
}

/// Plain git; the exit status and everything it printed.
pub(crate) fn try_git(dir: &Path, args: &[&str]) -> (bool, String) {
    let output = std::process::Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "safe.directory=*"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env_remove("http_proxy")
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&printed).trim().to_owned())
}

pub(crate) fn git(dir: &Path, args: &[&str]) -> String {
    let (success, printed) = try_git(dir, args);
    assert!(success, "git {args:?}: {printed}");
    printed
}

/// Git on a worker thread, while the gateway runs on this one.
pub(crate) async fn git_over_http(dir: &Path, args: &[&str]) -> (bool, String) {
    let (dir, args) = (dir.to_owned(), args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());
    let work = tokio::task::spawn_blocking(move || {
        try_git(&dir, &args.iter().map(String::as_str).collect::<Vec<_>>())
    });
    work.await.unwrap()
}

pub(crate) fn commit(repo: &Path, file: &str, text: &str) -> String {
    std::fs::write(repo.join(file), text).unwrap();
    git(repo, &["add", "."]);
    git(repo, &["commit", "-q", "-m", &format!("change {file}")]);
    git(repo, &["rev-parse", "HEAD"])
}
