//! Gives up nodes that are gone, and starts again elsewhere what they held.
//!
//! A server that is away for ten minutes disturbs nothing: its sandboxes live on and it adopts them. Only a node
//! that this one has *seen* silent for the whole window, without a gap in its own looking, is given up: a store
//! that was away, a server that just started, or a clock that jumped can make nobody look dead.

use std::collections::HashMap;
use std::time::Duration;

use sunaba_store::{HeldBy, SandboxFilter, Settlement};
use sunaba_types::{Node, NodeId, Sandbox, Timestamp};
use tokio::time::Instant;

use crate::Parts;
use crate::watch::{LIVING, LOOK_MAX};

/// A longer pause between two looks begins every window anew.
const GAP_MAX: Duration = Duration::from_secs(60);

/// How long a bridge holds its sandbox's requests while its server is away.
const STOPPED_FOR: Duration = Duration::from_secs(60 * 60);

/// What was seen of the others, and since when without a gap.
#[derive(Debug, Default)]
pub(crate) struct Watchman {
    last_look: Option<Instant>,
    silent: HashMap<NodeId, Silence>,
}

#[derive(Debug)]
struct Silence {
    /// The last word that was seen.
    beat_at: Timestamp,
    since: Instant,
}

impl Watchman {
    /// The nodes that have said nothing since a whole window of looking, and that window.
    fn silent_ones(
        &mut self,
        nodes: &[Node],
        me: &NodeId,
        window: Duration,
        now: Instant,
    ) -> Vec<(NodeId, Duration)> {
        let gap = self.last_look.is_none_or(|last| now - last > GAP_MAX);
        self.last_look = Some(now);
        if gap {
            self.silent.clear();
        }
        self.silent.retain(|id, _| nodes.iter().any(|node| node.report.id == *id));
        for node in nodes.iter().filter(|node| node.report.id != *me) {
            let fresh = || Silence { beat_at: node.beat_at, since: now };
            let seen = self.silent.entry(node.report.id.clone()).or_insert_with(fresh);
            if seen.beat_at != node.beat_at {
                *seen = fresh();
            }
        }
        let long = nodes.iter().map(|node| (node, window_of(node, window))).filter(|(node, window)| {
            self.silent.get(&node.report.id).is_some_and(|silence| now - silence.since >= *window)
        });
        long.map(|(node, window)| (node.report.id.clone(), window)).collect()
    }

    /// One look at the others. Whether all went well.
    pub(crate) async fn look(&mut self, parts: &Parts) -> bool {
        let nodes = match parts.store.list_nodes().await {
            Ok(nodes) => nodes,
            Err(error) => {
                tracing::warn!(%error, "cannot read the nodes; looking again");
                return false;
            }
        };
        let mut went_well = true;
        let window = parts.settings.node_lost_after;
        for (id, window) in self.silent_ones(&nodes, parts.nodes.me(), window, Instant::now()) {
            match parts.store.give_up_node(&id, window).await {
                Ok(true) => tracing::error!(node = %id, silent_s = window.as_secs(), "gave up a silent node"),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(node = %id, %error, "cannot give up a silent node");
                    went_well = false;
                }
            }
        }
        // Also those that an operator, or another node that died half-way, gave up.
        for node in nodes.iter().filter(|node| node.lost_at.is_some()) {
            if node.sandboxes > 0 {
                went_well &= replace_all(parts, &node.report.id).await;
            }
            went_well &= settle_calls(parts, &node.report.id).await;
        }
        went_well
    }
}

/// How long a node may be silent: one that was stopped in order is expected back for as long as its sandboxes
/// wait for it.
fn window_of(node: &Node, window: Duration) -> Duration {
    if node.left_at.is_some() { window.max(STOPPED_FOR) } else { window }
}

/// Starts again elsewhere what a node that was given up held. Whether all went well.
async fn replace_all(parts: &Parts, node: &NodeId) -> bool {
    let filter = SandboxFilter {
        states: LIVING.to_vec(),
        held_by: Some(HeldBy::Node(node.clone())),
        limit: LOOK_MAX,
        ..SandboxFilter::default()
    };
    let lost = match parts.store.list_sandboxes(filter).await {
        Ok(lost) => lost,
        Err(error) => {
            tracing::warn!(%node, %error, "cannot read what a lost node held; looking again");
            return false;
        }
    };
    let mut went_well = true;
    for sandbox in lost {
        went_well &= replace(parts, node, &sandbox).await;
    }
    went_well
}

/// Settles what models were asked on a lost node at its reservation: nobody saw the answer. Whether all went well.
async fn settle_calls(parts: &Parts, node: &NodeId) -> bool {
    let open = match parts.store.open_calls(Some(node)).await {
        Ok(open) => open,
        Err(error) => {
            tracing::warn!(%node, %error, "cannot read the model calls of a lost node; looking again");
            return false;
        }
    };
    let mut went_well = true;
    for call in open {
        let settlement = Settlement {
            cost_micros: call.micros,
            known_by: "reservation".to_owned(),
            ..Settlement::default()
        };
        if let Err(error) = parts.store.settle_call(&call.id, settlement).await {
            tracing::warn!(%node, %error, "a model call of a lost node could not be settled; trying again");
            went_well = false;
        }
    }
    went_well
}

/// Fails a lost sandbox and starts the next attempt. Its tokens stay: it may live on where nobody is heard, and is to
/// be told that its attempt is over, not that nobody knows it. Whoever removes it revokes them.
async fn replace(parts: &Parts, node: &NodeId, sandbox: &Sandbox) -> bool {
    let reason = format!("node_lost: the node {node} that held it is gone");
    let most = parts.settings.most_attempts;
    match parts.store.replace_lost_sandbox(&sandbox.id, &reason, most).await {
        Ok(Some(next)) => {
            tracing::warn!(sandbox = %sandbox.id, next = %next.id, "a lost sandbox is tried again");
            true
        }
        Ok(None) => true,
        Err(error) => {
            tracing::warn!(sandbox = %sandbox.id, %error, "a lost sandbox could not be replaced; trying again");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use sunaba_store::{Reserve, Spender};

    use super::*;

    const WINDOW: Duration = Duration::from_secs(900);

    /// A node whose last word is so old.
    fn node(id: &str, beat: i64) -> Node {
        let beat_at = Timestamp::from_second(beat).unwrap();
        Node { beat_at, silent_for: Duration::from_secs(100_000), ..crate::made::node(id) }
    }

    /// Looks every 10 s for `seconds`; who is silent at the end?
    fn looks(watchman: &mut Watchman, now: &mut Instant, seconds: u64, nodes: &[Node]) -> usize {
        let me = NodeId::parse("me").unwrap();
        let mut silent = 0;
        for _ in 0..seconds / 10 {
            *now += Duration::from_secs(10);
            silent = watchman.silent_ones(nodes, &me, WINDOW, *now).len();
        }
        silent
    }

    #[test]
    fn silence_counts_only_while_it_was_watched() {
        let (mut watchman, mut now) = (Watchman::default(), Instant::now());
        let silent = [node("other", 5), node("me", 5)];
        assert_eq!(looks(&mut watchman, &mut now, 890, &silent), 0, "this server has just started");
        now += Duration::from_secs(120);
        assert_eq!(looks(&mut watchman, &mut now, 890, &silent), 0, "it was itself away for two minutes");
        assert_eq!(looks(&mut watchman, &mut now, 30, &silent), 1, "a whole window has passed; never itself");
        let beaten = [node("other", 6)];
        assert_eq!(looks(&mut watchman, &mut now, 890, &beaten), 0, "it spoke");
        let stopped = [Node { left_at: Some(Timestamp::UNIX_EPOCH), ..node("other", 6) }];
        assert_eq!(looks(&mut watchman, &mut now, 1800, &stopped), 0, "it was stopped in order");
        assert_eq!(looks(&mut watchman, &mut now, 1800, &stopped), 1, "it does not come back");
        assert_eq!(looks(&mut watchman, &mut now, 30, &[]), 0, "it was forgotten");
    }

    #[tokio::test]
    async fn what_a_lost_node_had_asked_of_models_is_settled_and_nobody_else_s() {
        let dir = tempfile::tempdir().unwrap();
        let parts = crate::made::parts(dir.path()).await;
        let sandbox = crate::made::sandbox(&parts).await;
        let (gone, here) = (crate::made::node("gone").report, crate::made::node("here").report);
        for (node, most_micros) in [(&gone, 7), (&gone, 5), (&here, 3)] {
            parts.store.enter_node(node).await.unwrap();
            let call = Reserve {
                sandbox_id: sandbox.id.clone(),
                attempt: sandbox.attempt,
                node_id: Some(node.id.clone()),
                dialect: "anthropic".into(),
                model: "m".into(),
                least_micros: 1,
                most_micros,
            };
            parts.store.reserve_call(call).await.unwrap();
        }
        let spent = async || parts.store.spending(&Spender::Sandbox(sandbox.id.clone())).await.unwrap();
        assert!(Watchman::default().look(&parts).await);
        assert_eq!(spent().await.reserved_micros, 15, "nobody is lost");
        assert!(parts.store.give_up_node(&gone.id, Duration::ZERO).await.unwrap());
        assert!(Watchman::default().look(&parts).await);
        let open = parts.store.open_calls(None).await.unwrap();
        assert_eq!(open.iter().map(|call| call.micros).collect::<Vec<_>>(), [3]);
        assert_eq!((spent().await.cost_micros, spent().await.reserved_micros), (12, 3));
        parts.store.close().await;
        assert!(!Watchman::default().look(&parts).await, "a store that does not answer is no success");
    }
}
