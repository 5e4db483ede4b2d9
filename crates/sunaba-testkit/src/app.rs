//! A real server in a temporary directory, on a port of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use sunaba_secrets::{SecretKey, Secrets, Vault};
use sunaba_server::{AppState, BlobFiles, GatewayRoutes, Parts, ServerConfig, auth};
use sunaba_store::{NewProject, NewSandbox, NewTask, NewTicket, NewToken, SandboxChange, Store};
use sunaba_types::{
    Clock, Priority, Project, ProjectId, ProjectSettings, Resources, Sandbox, SandboxId, SystemClock, Task,
    TicketType, TokenKind,
};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::{Client, SseReader, WsReader, eventually};

type Compose = Box<dyn FnOnce(&mut Parts) + Send>;

/// How a test server differs from the usual one.
#[derive(Default)]
pub struct Setup {
    config: ServerConfig,
    clock: Option<Arc<dyn Clock>>,
    gateway: Option<axum::Router>,
    compose: Option<Compose>,
    store: Option<Arc<dyn Store>>,
    without_vault: bool,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Setup {
    /// Changes the configuration.
    #[must_use]
    pub fn config(mut self, change: impl FnOnce(&mut ServerConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Uses another clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Serves this under `/gateway`.
    #[must_use]
    pub fn gateway(mut self, router: axum::Router) -> Self {
        self.gateway = Some(router);
        self
    }

    /// Changes the parts before they are put together.
    #[must_use]
    pub fn compose(mut self, change: impl FnOnce(&mut Parts) + Send + 'static) -> Self {
        self.compose = Some(Box::new(change));
        self
    }

    /// Uses this store, not that of the server's directory.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Leaves the key for secrets out.
    #[must_use]
    pub fn without_vault(mut self) -> Self {
        self.without_vault = true;
        self
    }

    /// Starts the server in a new directory.
    pub async fn start(self) -> TestApp {
        let dir = tempfile::tempdir().expect("a temporary directory");
        self.start_in(Arc::new(dir)).await
    }

    /// Starts the server in a directory that another one has used before.
    pub async fn start_in(self, dir: Arc<tempfile::TempDir>) -> TestApp {
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let store = match self.store {
            Some(store) => store,
            None => crate::open_store(dir.path(), Arc::clone(&clock)).await,
        };
        let admin = auth::ensure_admin_token(store.as_ref(), &dir.path().join("admin-token"))
            .await
            .expect("an admin token");
        let shutdown = CancellationToken::new();
        let blobs = BlobFiles::new(dir.path().join("blobs"));
        let mut parts = Parts::new(Arc::clone(&store), clock, blobs, self.config, shutdown.clone());
        if !self.without_vault {
            parts.secrets = Some(open_vault(&store, dir.path()).await);
        }
        if let Some(compose) = self.compose {
            compose(&mut parts);
        }
        let state = AppState::new(parts);
        state.spawn_background();
        let gateway =
            self.gateway.map(|for_sandboxes| GatewayRoutes { for_sandboxes, for_nodes: axum::Router::new() });
        let server = sunaba_server::app(state.clone(), gateway);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let tasks = TaskTracker::new();
        tasks.spawn(sunaba_server::serve(listener, server.clone(), shutdown.clone()));
        let admin = Client::new(format!("http://{address}"), Some(admin));
        let app = TestApp { dir, store, state, server, admin, shutdown, tasks };
        eventually("the server is ready", || async { app.anonymous().get("/readyz").await.status == 200 })
            .await;
        app
    }
}

/// A running server.
#[derive(Debug)]
pub struct TestApp {
    /// Its data directory.
    pub dir: Arc<tempfile::TempDir>,
    /// Its rows.
    pub store: Arc<dyn Store>,
    /// Its state.
    pub state: AppState,
    /// It itself, for doors.
    pub server: sunaba_server::App,
    /// An administrator.
    pub admin: Client,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

impl Drop for TestApp {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// A project with a task and its sandbox, and the sandbox's own client.
#[derive(Debug)]
pub struct Work {
    /// The repository.
    pub project: Project,
    /// The task.
    pub task: Task,
    /// The sandbox.
    pub sandbox: Sandbox,
    /// Its worker.
    pub worker: Client,
}

impl Work {
    /// The path of the sandbox, with something after it.
    pub fn path(&self, rest: &str) -> String {
        format!("/api/v1/sandboxes/{}{rest}", self.sandbox.id)
    }

    /// Posts an event as the worker; gives its seq.
    pub async fn say(&self, event_type: &str, data: serde_json::Value) -> i64 {
        let body = json!({"event_type": event_type, "event_data": data});
        let answer = self.worker.post(&self.path("/events"), body).await;
        answer.expect(200)["seq"].as_i64().expect("a seq")
    }
}

impl TestApp {
    /// The usual server.
    pub async fn start() -> Self {
        Setup::default().start().await
    }

    /// A server without authentication.
    pub async fn open() -> Self {
        Setup::default().config(|config| config.auth = sunaba_server::AuthMode::Off).start().await
    }

    /// A caller without a token.
    pub fn anonymous(&self) -> Client {
        self.admin.with_token(None)
    }

    /// A caller with a new personal token.
    pub async fn personal(&self, scopes: &[&str], projects: &[&ProjectId]) -> Client {
        let token = NewToken {
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            projects: projects.iter().map(|id| (*id).clone()).collect(),
            ..blank_token(TokenKind::Personal)
        };
        self.caller(token).await
    }

    /// A caller with a new token of this sandbox, bound to an attempt.
    pub async fn worker(&self, sandbox: &SandboxId, attempt: i64) -> Client {
        let token = NewToken {
            sandbox_id: Some(sandbox.clone()),
            attempt: Some(attempt),
            ..blank_token(TokenKind::Sandbox)
        };
        self.caller(token).await
    }

    async fn caller(&self, mut token: NewToken) -> Client {
        let (secret, hash) = auth::mint(token.kind);
        token.hash = hash;
        self.store.create_token(token).await.expect("a token");
        self.admin.with_token(Some(&secret))
    }

    /// A new project on a repository of its own.
    pub async fn project(&self, name: &str) -> Project {
        self.project_with(name, ProjectSettings::default()).await
    }

    /// A new project with these settings.
    pub async fn project_with(&self, name: &str, settings: ProjectSettings) -> Project {
        let project = NewProject {
            name: name.to_owned(),
            repo_path: Some(self.repository(name).display().to_string()),
            repo_url: None,
            default_branch: "main".to_owned(),
            settings,
        };
        self.store.ensure_project(project).await.expect("a project")
    }

    /// A directory that looks like a git repository.
    pub fn repository(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join("repositories").join(name);
        std::fs::create_dir_all(path.join(".git")).expect("a directory");
        std::fs::write(path.join(".git/HEAD"), "ref: refs/heads/main\n").expect("a file");
        path
    }

    /// A new task in a project.
    pub async fn task(&self, project: &ProjectId, title: &str) -> Task {
        let ticket = NewTicket {
            project_id: project.clone(),
            title: title.to_owned(),
            description: title.to_owned(),
            ticket_type: TicketType::Feature,
            priority: Priority::Medium,
            owner: "test".to_owned(),
        };
        let ticket = self.store.create_ticket(ticket).await.expect("a ticket");
        let task = NewTask {
            ticket_id: ticket.id,
            task_type: "implement".to_owned(),
            title: title.to_owned(),
            description: title.to_owned(),
            priority: Priority::Medium,
            execution_config: sunaba_types::ExecutionConfig::default(),
        };
        self.store.create_task(task).await.expect("a task")
    }

    /// A sandbox for a task, brought to `creating`, where its worker is expected.
    pub async fn sandbox(&self, task: &Task) -> Sandbox {
        let sandbox = NewSandbox {
            project_id: Some(task.project_id.clone()),
            task_id: Some(task.id.clone()),
            provider: "local".to_owned(),
            runtime: "native".to_owned(),
            model: "script:default".to_owned(),
            prompt: task.description.clone(),
            resources: Resources::default(),
            terms: sunaba_types::Terms::default(),
        };
        let sandbox = self.store.create_sandbox(sandbox).await.expect("a sandbox");
        let change = SandboxChange {
            trigger: Some(sunaba_engine::SandboxTrigger::Create),
            ..SandboxChange::default()
        };
        self.store.change_sandbox(&sandbox.id, change).await.expect("it is being created")
    }

    /// Ends a sandbox and starts another attempt at its task; gives the new sandbox.
    pub async fn supersede(&self, work: &Work) -> Sandbox {
        let steps = [
            (Some(sunaba_engine::SandboxTrigger::Fail), sunaba_engine::TaskTrigger::Fail),
            (None, sunaba_engine::TaskTrigger::Retry),
        ];
        for (trigger, task_trigger) in steps {
            let change =
                SandboxChange { trigger, task_trigger: Some(task_trigger), ..SandboxChange::default() };
            self.store.change_sandbox(&work.sandbox.id, change).await.expect("a legal step");
        }
        self.sandbox(&work.task).await
    }

    /// A project with a task, its sandbox and its worker.
    pub async fn work(&self, name: &str) -> Work {
        let project = self.project(name).await;
        let task = self.task(&project.id, "do it").await;
        let sandbox = self.sandbox(&task).await;
        let worker = self.worker(&sandbox.id, sandbox.attempt).await;
        Work { project, task, sandbox, worker }
    }

    /// Opens the live feed as somebody; `query` begins after the `?`.
    pub async fn watch(&self, who: &Client, query: &str) -> WsReader {
        WsReader::connect(who, query).await
    }

    /// Opens a sandbox's event stream as somebody.
    pub async fn stream(&self, who: &Client, sandbox: &SandboxId, after_seq: i64) -> SseReader {
        SseReader::open(who, sandbox, after_seq).await
    }

    /// Where something is in the data directory.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Stops the server in an orderly way; gives the directory for the next one.
    pub async fn stop(self) -> Arc<tempfile::TempDir> {
        self.shutdown.cancel();
        self.tasks.close();
        crate::within("the server stops", async {
            self.tasks.wait().await;
            self.state.drained().await;
            self.store.close().await;
        })
        .await;
        Arc::clone(&self.dir)
    }
}

/// The secrets of a store, with the key in the data directory.
async fn open_vault(store: &Arc<dyn Store>, dir: &Path) -> Secrets {
    let key = SecretKey::read_or_make(&dir.join("secret.key")).expect("a key");
    Secrets::open(Arc::clone(store), Vault::new(&key)).await.expect("the same key as before")
}

fn blank_token(kind: TokenKind) -> NewToken {
    NewToken {
        hash: [0; 32],
        name: format!("a {kind}"),
        kind,
        scopes: Vec::new(),
        projects: Vec::new(),
        sandbox_id: None,
        attempt: None,
        expires_at: None,
    }
}
