//! What this node knows of the others.
//!
//! Whoever asks gets the last list that was read, at once: an old one is read anew beside the question, because a
//! database that is slow would else hold up everything that only wants to know an address. Nobody is said to be away
//! or gone by an old list, if a new one can be had in a moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use secrecy::SecretString;
use sunaba_store::Store;
use sunaba_types::{Node, NodeId, ProjectId, Role};
use tokio_util::task::TaskTracker;

use crate::{Error, Loops};

/// How long what was read of the others is good.
const GOOD_FOR: Duration = Duration::from_secs(2);
/// Longest that one reading may take.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// How long it is waited for a new list before somebody is judged by an old one.
const SECOND_LOOK: Duration = Duration::from_millis(300);
/// Most projects whose home is remembered.
const HOMES_MAX: usize = 10_000;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two pieces of an answer, and before its first: a mirror may take long to be refreshed.
const READ_TIMEOUT: Duration = Duration::from_secs(35 * 60);
/// A machine that vanished is noticed by this, however long an answer may take.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Where something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Where {
    /// On this node.
    Here,
    /// On that one.
    There(NodeId),
}

/// This node and what it knows of the others.
#[derive(Debug, Clone)]
pub struct Nodes(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) me: NodeId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) token: SecretString,
    pub(crate) http: reqwest::Client,
    pub(crate) loops: Loops,
    /// The others as last read.
    seen: Mutex<Option<Seen>>,
    /// Held by whoever reads them anew: several askers share one reading.
    reading: Arc<tokio::sync::Mutex<()>>,
    /// Readings beside the questions.
    tasks: TaskTracker,
    /// A home never changes once it is known.
    homes: Mutex<HashMap<ProjectId, NodeId>>,
}

/// What was read of the nodes.
#[derive(Debug, Clone)]
struct Seen {
    /// When the reading began.
    at: Instant,
    /// A node could not be reached under what is known of it.
    is_doubted: bool,
    nodes: Arc<[Node]>,
}

impl Seen {
    fn is_good(&self) -> bool {
        !self.is_doubted && self.at.elapsed() < GOOD_FOR
    }

    fn find(&self, id: &NodeId) -> Option<Node> {
        self.nodes.iter().find(|node| node.report.id == *id).cloned()
    }
}

impl Nodes {
    /// A node that knows the others by their rows and opens them with the token that all share; fails only if no
    /// TLS client can be made.
    pub fn new(me: NodeId, store: Arc<dyn Store>, token: SecretString) -> Result<Self, reqwest::Error> {
        // Harmless when the binary chose one already; without any, making a client would panic.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // Other nodes are named by their operator: no proxy stands between, and none is asked.
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .tcp_keepalive(KEEPALIVE)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()?;
        let (loops, seen, homes) = (Loops::default(), Mutex::default(), Mutex::default());
        let (reading, tasks) = (Arc::default(), TaskTracker::new());
        Ok(Self(Arc::new(Inner { me, store, token, http, loops, seen, reading, tasks, homes })))
    }

    /// This node.
    pub fn me(&self) -> &NodeId {
        &self.0.me
    }

    /// How this node's loops fare.
    pub fn loops(&self) -> &Loops {
        &self.0.loops
    }

    /// What opens the routes between nodes.
    pub fn token(&self) -> &SecretString {
        &self.0.token
    }

    /// Every node, this one included, as last read. Waits for the store only if they were never read.
    pub async fn list(&self) -> Result<Arc<[Node]>, Error> {
        Ok(self.last_seen().await?.nodes)
    }

    /// The same, read anew: also those that have just come.
    pub async fn list_now(&self) -> Result<Arc<[Node]>, Error> {
        Ok(self.read().await?.nodes)
    }

    /// A node as last read. One that is not known to be up is looked at again, for a moment: it may have come, or come
    /// back.
    pub(crate) async fn find(&self, id: &NodeId) -> Result<Option<Node>, Error> {
        let seen = self.last_seen().await?;
        let known = seen.find(id);
        if seen.is_good() || known.as_ref().is_some_and(|node| node.is_up() && node.lost_at.is_none()) {
            return Ok(known);
        }
        match tokio::time::timeout(SECOND_LOOK, self.read()).await {
            Ok(Ok(seen)) => Ok(seen.find(id)),
            _ if known.is_some() => Ok(known),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(slow()),
        }
    }

    async fn last_seen(&self) -> Result<Seen, Error> {
        match self.seen() {
            Some(seen) => {
                if !seen.is_good() {
                    self.refresh();
                }
                Ok(seen)
            }
            None => self.read().await,
        }
    }

    fn seen(&self) -> Option<Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the nodes anew beside whatever goes on, unless somebody does.
    pub(crate) fn refresh(&self) {
        let Ok(turn) = Arc::clone(&self.0.reading).try_lock_owned() else { return };
        let nodes = self.clone();
        self.0.tasks.spawn(async move {
            if let Err(error) = nodes.read_alone().await {
                tracing::debug!(%error, "the nodes could not be read; what was known of them is used");
            }
            drop(turn);
        });
    }

    /// Reads the nodes, or waits for somebody who began to after this was asked.
    async fn read(&self) -> Result<Seen, Error> {
        let asked = Instant::now();
        let _turn = self.0.reading.lock().await;
        match self.seen() {
            Some(seen) if seen.at >= asked => Ok(seen),
            _ => self.read_alone().await,
        }
    }

    /// Whoever calls this has the turn to read.
    async fn read_alone(&self) -> Result<Seen, Error> {
        let at = Instant::now();
        let read = tokio::time::timeout(READ_WITHIN, self.0.store.list_nodes()).await;
        let nodes = read.map_err(|_| slow())??.into();
        let seen = Seen { at, is_doubted: false, nodes };
        *self.0.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen.clone());
        Ok(seen)
    }

    /// What was read is not good any more: a node could not be reached under what is known of it.
    pub(crate) fn doubt_seen(&self) {
        if let Some(seen) = &mut *self.0.seen.lock().unwrap_or_else(PoisonError::into_inner) {
            seen.is_doubted = true;
        }
    }

    /// Whether any other node that is up starts sandboxes with this provider.
    pub async fn others_have(&self, provider: &str) -> Result<bool, Error> {
        let nodes = self.list().await?;
        Ok(nodes.iter().any(|node| {
            node.report.id != self.0.me
                && node.is_up()
                && node.has_role(Role::Orchestrator)
                && node.report.providers.iter().any(|name| name == provider)
        }))
    }

    /// Which node has a project's mirror; this one, if none has it yet.
    pub async fn home_of(&self, project: &ProjectId) -> Result<Where, Error> {
        let known = self.0.homes.lock().unwrap_or_else(PoisonError::into_inner).get(project).cloned();
        let home = match known {
            // A home that was given up may be another's by now.
            Some(home) if home == self.0.me || !self.is_lost(&home).await? => home,
            _ => {
                let home = self.0.store.ensure_home(project, &self.0.me).await?;
                let mut homes = self.0.homes.lock().unwrap_or_else(PoisonError::into_inner);
                if homes.len() >= HOMES_MAX {
                    homes.clear();
                }
                homes.insert(project.clone(), home.clone());
                home
            }
        };
        Ok(self.place(&home))
    }

    async fn is_lost(&self, node: &NodeId) -> Result<bool, Error> {
        Ok(self.find(node).await?.is_some_and(|node| node.lost_at.is_some()))
    }

    /// Which node has a project's mirror, if any has; asking changes nothing.
    pub async fn known_home(&self, project: &ProjectId) -> Result<Option<Where>, Error> {
        let project = self.0.store.find_project(project).await?;
        Ok(project.and_then(|project| project.home_node).map(|home| self.place(&home)))
    }

    /// Whether a node is this one.
    pub fn place(&self, node: &NodeId) -> Where {
        if *node == self.0.me { Where::Here } else { Where::There(node.clone()) }
    }
}

fn slow() -> Error {
    Error::Store(sunaba_store::Error::Unavailable("the nodes could not be read in time".into()))
}
