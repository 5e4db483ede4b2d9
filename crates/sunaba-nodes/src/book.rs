//! What this node knows of the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use secrecy::SecretString;
use sunaba_store::Store;
use sunaba_types::{Node, NodeId, ProjectId, Role};

use crate::{Error, Loops};

/// How long what was read of the others is good.
const GOOD_FOR: Duration = Duration::from_secs(2);
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
    /// The others as last read; several readers share one reading.
    seen: tokio::sync::Mutex<Option<(Instant, Arc<[Node]>)>>,
    /// A home never changes once it is known.
    homes: Mutex<HashMap<ProjectId, NodeId>>,
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
        let (loops, seen, homes) = (Loops::default(), tokio::sync::Mutex::default(), Mutex::default());
        Ok(Self(Arc::new(Inner { me, store, token, http, loops, seen, homes })))
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

    /// Every node, this one included, as of a moment ago.
    pub async fn list(&self) -> Result<Arc<[Node]>, Error> {
        let mut seen = self.0.seen.lock().await;
        if let Some((at, nodes)) = &*seen
            && at.elapsed() < GOOD_FOR
        {
            return Ok(Arc::clone(nodes));
        }
        let nodes: Arc<[Node]> = self.0.store.list_nodes().await?.into();
        *seen = Some((Instant::now(), Arc::clone(&nodes)));
        Ok(nodes)
    }

    /// What was read is not good any more: a node could not be reached under what is known of it.
    pub(crate) async fn forget_seen(&self) {
        *self.0.seen.lock().await = None;
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
        let nodes = self.list().await?;
        Ok(nodes.iter().any(|other| other.report.id == *node && other.lost_at.is_some()))
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
