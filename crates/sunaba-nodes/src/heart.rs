//! Says again and again that this node lives.
//!
//! A store that is away is waited out: nobody can be judged by a store that nobody can write to. A node
//! whose place another process has taken, or whose program is too old for the store, must stop, and says so.

use std::time::{Duration, Instant};

use sunaba_store::Error as StoreError;
use sunaba_types::NodeReport;
use sunaba_types::limits::{NODE_BEAT, NODE_SILENCE};
use tokio_util::sync::CancellationToken;

use crate::Nodes;

/// Longest that one word to the store may take.
const BEAT_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two tries to enter while another machine seems to be this node.
const ENTER_RETRY: Duration = Duration::from_secs(1);

/// Another process is this node now, or a newer program has taken over the store; the words say what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Taken(String);

/// A node's heart.
#[derive(Debug)]
pub struct Heart {
    nodes: Nodes,
    report: NodeReport,
}

impl Heart {
    /// Enters the node. A process of another machine that was this node a moment ago (a moved data
    /// directory) is given the time to fall silent.
    pub async fn enter(nodes: Nodes, report: NodeReport) -> Result<Self, StoreError> {
        let until = Instant::now() + NODE_SILENCE + ENTER_RETRY;
        loop {
            match nodes.0.store.enter_node(&report).await {
                Err(StoreError::Conflict { detail, .. }) if Instant::now() < until => {
                    tracing::warn!(detail, "waiting to see whether it still runs there");
                    tokio::time::sleep(ENTER_RETRY).await;
                }
                entered => return entered.map(|()| Self { nodes, report }),
            }
        }
    }

    /// Beats until `stop`; then says that the node leaves. An error means that the process has to end.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), Taken> {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(NODE_BEAT) => {}
            }
            let began = Instant::now();
            let went_well = self.beat().await?;
            // So that what is known of the others is new also where nobody asked for long.
            self.nodes.refresh();
            self.nodes.loops().round("heartbeat", began, went_well);
        }
        let left = self.nodes.0.store.leave_node(&self.report.id, &self.report.instance);
        if !matches!(tokio::time::timeout(BEAT_TIMEOUT, left).await, Ok(Ok(()))) {
            tracing::warn!("the other nodes could not be told that this one stops");
        }
        Ok(())
    }

    async fn beat(&mut self) -> Result<bool, Taken> {
        self.report.loops = serde_json::json!(self.nodes.loops().report());
        match tokio::time::timeout(BEAT_TIMEOUT, self.nodes.0.store.beat_node(&self.report)).await {
            Ok(Ok(())) => Ok(true),
            Ok(Err(StoreError::Conflict { detail, .. })) => Err(Taken(detail)),
            Ok(Err(error)) if let Some(outdated) = error.outdated() => Err(Taken(outdated.to_string())),
            Ok(Err(error)) => {
                tracing::warn!(%error, "this node could not say that it lives; trying again");
                Ok(false)
            }
            Err(_) => {
                tracing::warn!("this node could not say that it lives in time; trying again");
                Ok(false)
            }
        }
    }
}
