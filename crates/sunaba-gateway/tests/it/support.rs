//! A gateway on an ephemeral port, with a project, a task, its sandbox and its mirror.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::extract::Request;
use axum::middleware::Next;
use serde_json::{Value, json};
use sunaba_gateway::{Caller, GatewayConfig, GatewayState, ScriptSource, Upstream, router};
use sunaba_git::Mirror;
use sunaba_store::{
    EventQuery, EventStore, NewProject, NewSandbox, NewTask, NewTicket, SandboxChange, Store,
};
use sunaba_store_sqlite::{Options, SqliteStore};
use sunaba_types::{
    BlobHash, Priority, ProjectId, ProjectSettings, Resources, Sandbox, SandboxId, SystemClock, TicketType,
};
use tempfile::TempDir;

pub(crate) const BRANCH: &str = "feature/1-x";

#[derive(Default)]
struct Scripts(Mutex<HashMap<String, Vec<u8>>>);

#[async_trait]
impl ScriptSource for Scripts {
    async fn load(&self, hash: &BlobHash) -> io::Result<Vec<u8>> {
        let found = self.0.lock().unwrap().get(hash.as_str()).cloned();
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such blob"))
    }
}

pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) project: ProjectId,
    pub(crate) sandbox: Sandbox,
    pub(crate) mirror: Mirror,
    pub(crate) base: String,
    pub(crate) caller: Arc<Mutex<Caller>>,
}

impl World {
    /// A sandbox whose model is this script.
    pub(crate) async fn scripted(script: &str) -> Self {
        let hash = BlobHash::of(script.as_bytes());
        let scripts = Scripts::default();
        scripts.0.lock().unwrap().insert(hash.as_str().to_owned(), script.as_bytes().to_vec());
        Self::new(&format!("script:{hash}"), scripts, None).await
    }

    /// A sandbox whose model is this one.
    pub(crate) async fn with_model(model: &str) -> Self {
        Self::new(model, Scripts::default(), None).await
    }

    /// A sandbox whose model is reached at this address with the key `real-key`.
    pub(crate) async fn with_upstream(base_url: &str) -> Self {
        let upstream = Upstream { base_url: base_url.to_owned(), api_key: Some("real-key".into()) };
        Self::new("claude-real", Scripts::default(), Some(upstream)).await
    }

    async fn new(model: &str, scripts: Scripts, upstream: Option<Upstream>) -> Self {
        let dir = TempDir::new().unwrap();
        let repo = dir.path().join("repo");
        std::fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "-q", "-b", "main"]);
        commit(&repo, "README.md", "hello\n");
        let options = Options::new(dir.path().join("db"), Arc::new(SystemClock));
        let store = SqliteStore::open(options).await.unwrap();
        let (project, sandbox) = make_sandbox(&*store, &repo, model).await;
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
        let upstream = upstream.unwrap_or(Upstream { base_url: "http://127.0.0.1:9".into(), api_key: None });
        let state = GatewayState::new(GatewayConfig {
            store: Arc::clone(&store) as Arc<dyn Store>,
            git_root: dir.path().join("git"),
            locks: Arc::default(),
            scripts: Arc::new(scripts),
            anthropic: upstream,
        })
        .unwrap();
        let base = serve(Router::new().nest("/gateway", router(state)), Arc::clone(&caller)).await;
        Self { dir, store, project, sandbox, mirror, base, caller }
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
        let url = format!("{}/gateway/anthropic/v1/messages", self.base);
        let client = reqwest::Client::new();
        let answer = client.post(url).header("x-api-key", "sandbox-token").json(body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
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

async fn make_sandbox(store: &dyn Store, repo: &Path, model: &str) -> (ProjectId, Sandbox) {
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
        terms: sunaba_types::Terms::default(),
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
