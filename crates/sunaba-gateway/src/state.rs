//! What the gateway is given, and what it keeps between requests.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use sunaba_git::ProjectLocks;
use sunaba_nodes::Nodes;
use sunaba_secrets::Secrets;
use sunaba_store::Store;
use sunaba_types::{BlobHash, Clock, ProjectId, SandboxId, SystemClock};
use tokio_util::task::TaskTracker;

use crate::admission::Slots;
use crate::bodies::Bodies;
use crate::dialect::Vendor;
use crate::under_way::Calls;
use crate::{PriceTable, PushRoom};

/// How many counters of played errors are kept; at the bound all are forgotten, which replays some errors.
const ERROR_COUNTERS_MAX: usize = 10_000;

/// Who asks. Put into the request's extensions by the server, from the sandbox's token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The sandbox that the token opens.
    pub sandbox_id: SandboxId,
    /// The project it works on.
    pub project_id: Option<ProjectId>,
    /// The attempt that the token is bound to.
    pub attempt: i64,
}

/// Where scripts of the scripted model are kept.
#[async_trait]
pub trait ScriptSource: Send + Sync + 'static {
    /// The bytes of a stored script.
    async fn load(&self, hash: &BlobHash) -> io::Result<Vec<u8>>;
}

/// A real model's address and key.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// For example `https://api.anthropic.com`; with or without its version (`/v1`) at the end.
    pub base_url: String,
    /// The key; without one only scripted models answer.
    pub api_key: Option<SecretString>,
}

/// A week's limit and a day.
const QUOTA_WAIT_MAX: Duration = Duration::from_secs(8 * 86_400);

/// What the gateway is made of.
pub struct GatewayConfig {
    /// Where sandboxes are found and events are written.
    pub store: Arc<dyn Store>,
    /// The directory that holds the mirrors, `<project>.git` each.
    pub git_root: PathBuf,
    /// The git locks, shared with whatever else writes to mirrors.
    pub locks: Arc<ProjectLocks>,
    /// How much may be pushed.
    pub push_room: PushRoom,
    /// Where scripts are kept.
    pub scripts: Arc<dyn ScriptSource>,
    /// The real models behind `/anthropic`.
    pub anthropic: Upstream,
    /// The real models behind `/openai`.
    pub openai: Upstream,
    /// The real models behind `/google`.
    pub google: Upstream,
    /// Projects' own keys, which go before the server's.
    pub secrets: Option<Secrets>,
    /// What tokens cost.
    pub prices: PriceTable,
    /// The longest that a task waits for vendors' limits without its sandbox, until somebody speaks to it.
    pub quota_wait_max: Duration,
    /// Tells when a vendor's limit ends.
    pub clock: Arc<dyn Clock>,
    /// The other nodes; without them every mirror is here.
    pub nodes: Option<Nodes>,
}

impl GatewayConfig {
    /// A gateway without any key, at the built-in prices.
    pub fn new(
        store: Arc<dyn Store>,
        git_root: PathBuf,
        locks: Arc<ProjectLocks>,
        scripts: Arc<dyn ScriptSource>,
    ) -> Self {
        let keyless = |base_url: &str| Upstream { base_url: base_url.to_owned(), api_key: None };
        Self {
            store,
            git_root,
            locks,
            push_room: PushRoom::default(),
            scripts,
            anthropic: keyless("https://api.anthropic.com"),
            openai: keyless("https://api.openai.com"),
            google: keyless("https://generativelanguage.googleapis.com"),
            secrets: None,
            prices: PriceTable::built_in(),
            quota_wait_max: QUOTA_WAIT_MAX,
            clock: Arc::new(SystemClock),
            nodes: None,
        }
    }

    pub(crate) fn upstream(&self, vendor: Vendor) -> &Upstream {
        match vendor {
            Vendor::Anthropic => &self.anthropic,
            Vendor::OpenAi => &self.openai,
            Vendor::Google => &self.google,
        }
    }
}

impl std::fmt::Debug for GatewayConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewayConfig").field("git_root", &self.git_root).finish_non_exhaustive()
    }
}

/// The running gateway. Cheap to clone.
#[derive(Clone)]
pub struct GatewayState {
    pub(crate) config: Arc<GatewayConfig>,
    pub(crate) client: reqwest::Client,
    /// Answers that go on while their request's handler is done.
    pub(crate) tasks: TaskTracker,
    /// What each sandbox has under way.
    pub(crate) slots: Arc<Slots>,
    /// Model calls that are not over.
    pub(crate) calls: Arc<Calls>,
    /// What the bodies of model requests hold.
    pub(crate) bodies: Arc<Bodies>,
    /// How often a script's error was given, by sandbox and place.
    errors_played: Arc<Mutex<HashMap<(SandboxId, usize), u32>>>,
}

impl std::fmt::Debug for GatewayState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewayState").field("config", &self.config).finish_non_exhaustive()
    }
}

impl GatewayState {
    /// Makes the gateway; fails only if no TLS client can be made.
    pub fn new(config: GatewayConfig) -> Result<Self, reqwest::Error> {
        // Harmless when the binary chose one already; without any, making a client would panic.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(30))
            // Between two chunks: a thinking model may be silent for long, but it sends pings.
            .read_timeout(Duration::from_secs(600))
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        let (config, errors_played) = (Arc::new(config), Arc::default());
        let (tasks, slots, bodies) = (TaskTracker::new(), Arc::default(), Arc::default());
        Ok(Self { config, client, tasks, slots, calls: Arc::default(), bodies, errors_played })
    }

    /// Waits until every answer that has begun is finished and recorded.
    pub async fn drain(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Counts one more answer with the error of a script's turn, unless it was given `times` already.
    pub(crate) fn count_error(&self, sandbox_id: &SandboxId, turn: usize, times: u32) -> bool {
        let mut played = self.errors_played.lock().unwrap_or_else(PoisonError::into_inner);
        if played.len() >= ERROR_COUNTERS_MAX {
            played.clear();
        }
        let count = played.entry((sandbox_id.clone(), turn)).or_insert(0);
        let owed = *count < times;
        *count = count.saturating_add(u32::from(owed));
        owed
    }
}
