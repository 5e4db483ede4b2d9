//! Nodes, what they hold, and what becomes of it when one is lost.

use std::time::Duration;

use serde_json::json;
use sunaba_engine::{SandboxTrigger, TaskTrigger};
use sunaba_types::{
    Clock as _, Node, NodeId, NodeReport, ProjectId, Role, Sandbox, SandboxId, SandboxState, TaskState, Terms,
};

use super::sessions::follow_up;
use super::world::{World, event, own};
use crate::{Error, HeldBy, SandboxChange, SandboxFilter};

/// Most attempts at a task in these cases.
const MOST: i64 = 3;

fn report(world: &World, instance: &str) -> NodeReport {
    NodeReport {
        id: NodeId::generate(),
        instance: instance.to_owned(),
        host: "here".to_owned(),
        address: "http://127.0.0.1:1".to_owned(),
        version: "1.2.3".to_owned(),
        roles: vec![Role::Api, Role::Orchestrator],
        providers: vec!["local".to_owned()],
        max_sandboxes: 7,
        loops: json!({ "look": { "age_ms": 3 } }),
        started_at: world.clock.now(),
    }
}

async fn entered(world: &World) -> NodeReport {
    let report = report(world, "first");
    world.store.enter_node(&report).await.expect("a node");
    report
}

async fn find(world: &World, id: &NodeId) -> Node {
    let nodes = world.store.list_nodes().await.expect("up");
    nodes.into_iter().find(|node| node.report.id == *id).expect("the node is listed")
}

async fn held(world: &World, held_by: HeldBy) -> Vec<SandboxId> {
    let filter = SandboxFilter { held_by: Some(held_by), limit: 10, ..SandboxFilter::default() };
    let found = world.store.list_sandboxes(filter).await.expect("up");
    found.into_iter().map(|sandbox| sandbox.id).collect()
}

/// A sandbox of a new task, held by this node.
async fn claimed(world: &World, node: &NodeId) -> Sandbox {
    let task = world.task().await;
    let sandbox = world.assign(&task.id).await;
    let claimed = world.store.claim_sandbox(&sandbox.id, node).await.expect("up");
    claimed.expect("nobody else wants it")
}

/// A node says what it is, again and again, until it leaves; the next process of it is back.
pub async fn knows_nodes(world: World) {
    assert_eq!(world.store.list_nodes().await.expect("up"), vec![]);
    let mut said = entered(&world).await;
    let node = find(&world, &said.id).await;
    assert_eq!(node.report, said);
    assert_eq!((node.left_at, node.lost_at, node.sandboxes), (None, None, 0));
    assert!(node.is_up() && node.silent_for < Duration::from_secs(5), "{node:?}");
    said.loops = json!({ "look": { "age_ms": 9 } });
    world.store.beat_node(&said).await.expect("still there");
    assert_eq!(find(&world, &said.id).await.report, said);
    world.store.leave_node(&said.id, "another process").await.expect("harmless");
    assert!(find(&world, &said.id).await.is_up());
    world.store.leave_node(&said.id, &said.instance).await.expect("left");
    let left = find(&world, &said.id).await;
    assert!(left.left_at.is_some() && !left.is_up(), "{left:?}");
    let other = entered(&world).await;
    world.store.enter_node(&said).await.expect("back");
    assert!(find(&world, &said.id).await.is_up());
    let mut ids = vec![said.id, other.id];
    ids.sort();
    let listed = world.store.list_nodes().await.expect("up");
    assert_eq!(listed.into_iter().map(|node| node.report.id).collect::<Vec<_>>(), ids);
}

/// The next process of a machine takes a node over; one of another machine may not while it beats.
pub async fn lets_one_process_be_a_node(world: World) {
    let old = entered(&world).await;
    let new = NodeReport { instance: "second".to_owned(), ..old.clone() };
    world.store.enter_node(&new).await.expect("the same machine");
    let refused = world.store.beat_node(&old).await;
    assert!(matches!(refused, Err(Error::Conflict { code: "node_taken", .. })), "{refused:?}");
    world.store.leave_node(&old.id, &old.instance).await.expect("harmless");
    world.store.beat_node(&new).await.expect("it is the node now");
    let copy = NodeReport { instance: "third".to_owned(), host: "elsewhere".to_owned(), ..old.clone() };
    let refused = world.store.enter_node(&copy).await;
    assert!(matches!(refused, Err(Error::Conflict { code: "node_taken", .. })), "{refused:?}");
    assert_eq!(find(&world, &old.id).await.report, new);
    world.store.leave_node(&new.id, &new.instance).await.expect("left");
    world.store.enter_node(&copy).await.expect("moved to another machine");
    assert_eq!(find(&world, &old.id).await.report, copy);
}

/// A pending sandbox is taken up once, by one node, and counted there while it lives.
pub async fn claims_a_sandbox_once(world: World) {
    let (one, two) = (entered(&world).await.id, entered(&world).await.id);
    let task = world.task().await;
    let waiting = world.assign(&task.id).await;
    assert_eq!(waiting.node_id, None);
    let (left, right) = tokio::join!(
        world.store.claim_sandbox(&waiting.id, &one),
        world.store.claim_sandbox(&waiting.id, &two)
    );
    let (left, right) = (left.expect("up"), right.expect("up"));
    assert!(left.is_some() != right.is_some(), "exactly one has it: {left:?} {right:?}");
    let taken = left.or(right).expect("one of them");
    let holder = taken.node_id.clone().expect("a holder");
    assert_eq!(world.get_sandbox(&waiting.id).await, taken);
    assert_eq!(taken.state, SandboxState::Pending);
    assert_eq!(world.store.claim_sandbox(&waiting.id, &holder).await.expect("up"), None);
    assert_eq!(find(&world, &holder).await.sandboxes, 1);
    world.step(&waiting.id, SandboxTrigger::Create).await;
    assert_eq!(world.get_sandbox(&waiting.id).await.node_id, Some(holder.clone()), "a step keeps it");
    world.step(&waiting.id, SandboxTrigger::Cancel).await;
    assert_eq!(find(&world, &holder).await.sandboxes, 0);
    let unknown = world.store.claim_sandbox(&SandboxId::generate(), &one).await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })), "{unknown:?}");
}

/// Only what waits can be taken up: not what is over, nor what somebody else runs.
pub async fn claims_only_what_waits(world: World) {
    let node = entered(&world).await.id;
    let task = world.task().await;
    let over = world.assign(&task.id).await;
    world.step(&over.id, SandboxTrigger::Cancel).await;
    let external = world.external(vec![event("agent.started", json!({}))]).await;
    for id in [over.id, external] {
        assert_eq!(world.store.claim_sandbox(&id, &node).await.expect("up"), None);
    }
}

/// Lists can be narrowed to what a node holds or may take up.
pub async fn lists_what_a_node_holds(world: World) {
    let (one, two) = (entered(&world).await.id, entered(&world).await.id);
    let mine = claimed(&world, &one).await.id;
    let theirs = claimed(&world, &two).await.id;
    let free = world.assign(&world.task().await.id).await.id;
    world.external(vec![event("agent.started", json!({}))]).await;
    assert_eq!(held(&world, HeldBy::Node(one.clone())).await, vec![mine.clone()]);
    assert_eq!(held(&world, HeldBy::Node(two)).await, vec![theirs]);
    assert_eq!(held(&world, HeldBy::Node(NodeId::generate())).await, vec![]);
    world.pass(1);
    let later = world.assign(&world.task().await.id).await.id;
    assert_eq!(held(&world, HeldBy::Nobody).await, vec![free, later]);
    let of = async |provider: &str, states: Vec<SandboxState>| {
        let held_by = Some(HeldBy::Node(one.clone()));
        let provider = Some(provider.to_owned());
        let filter = SandboxFilter { held_by, provider, states, limit: 10, ..SandboxFilter::default() };
        world.store.list_sandboxes(filter).await.expect("up").len()
    };
    assert_eq!(of("local", vec![SandboxState::Pending]).await, 1);
    assert_eq!((of("docker", vec![]).await, of("local", vec![SandboxState::Running]).await), (0, 0));
}

/// Only a silent node is given up, once, and one that comes back is no longer lost.
pub async fn gives_up_only_the_silent(world: World) {
    let node = entered(&world).await;
    let give_up = async |silent: Duration| world.store.give_up_node(&node.id, silent).await.expect("up");
    assert!(!give_up(Duration::from_secs(900)).await, "it has just beaten");
    assert!(give_up(Duration::ZERO).await);
    assert!(!give_up(Duration::ZERO).await, "once");
    assert!(find(&world, &node.id).await.lost_at.is_some());
    assert!(!world.store.give_up_node(&NodeId::generate(), Duration::ZERO).await.expect("up"));
    world.store.beat_node(&node).await.expect("back");
    assert_eq!(find(&world, &node.id).await.lost_at, None);
}

/// What a lost node held fails, and its task gets a new sandbox on the same terms at once.
pub async fn replaces_what_was_lost(world: World) {
    let node = entered(&world).await;
    let task = world.task().await;
    let terms = Terms { timeout_seconds: Some(77), ..Terms::default() };
    let waiting = world.assign_on(&task.id, terms.clone()).await;
    world.store.claim_sandbox(&waiting.id, &node.id).await.expect("up").expect("free");
    let lost = world.step(&waiting.id, SandboxTrigger::Create).await;
    world.append(&lost.id, own(&lost), vec![event("agent.started", json!({}))]).await;
    let replace = async || world.store.replace_lost_sandbox(&lost.id, "its machine is gone", MOST).await;
    assert_eq!(replace().await.expect("up"), None, "the node is not lost");
    assert_eq!(world.get_sandbox(&lost.id).await.state, SandboxState::Running);
    assert!(world.store.give_up_node(&node.id, Duration::ZERO).await.expect("up"));
    let new = replace().await.expect("up").expect("a new sandbox");
    assert_eq!((new.state, new.attempt, new.node_id.clone()), (SandboxState::Pending, 2, None));
    let terms = Terms { losses: 1, after: Some(lost.id.clone()), ..terms };
    assert_eq!((&new.terms, &new.model, &new.prompt), (&terms, &lost.model, &lost.prompt));
    assert_eq!((&new.provider, &new.project_id), (&lost.provider, &lost.project_id));
    let old = world.get_sandbox(&lost.id).await;
    assert_eq!((old.state, old.reason.as_deref()), (SandboxState::Failed, Some("its machine is gone")));
    let held = world.get_task(&task.id).await;
    assert_eq!((held.status, held.attempt), (TaskState::Assigned, 2));
    assert_eq!(held.sandbox_id.as_ref(), Some(&new.id));
    assert_eq!(replace().await.expect("up"), None, "once");
    let late = world.append(&lost.id, own(&lost), vec![event("agent.message", json!({}))]).await;
    assert!(late[0].is_err(), "the lost attempt is superseded: {late:?}");
    let head = world.store.feed_head().await.expect("up");
    assert!(head > 0);
    world.store.claim_sandbox(&new.id, &NodeId::generate()).await.expect("up").expect("free to be taken up");
}

/// After the last attempt the task fails with its sandbox; a task that is over already is left alone.
pub async fn replaces_no_more_than_allowed(world: World) {
    let node = entered(&world).await;
    let sandbox = claimed(&world, &node.id).await;
    let cancelled = claimed(&world, &node.id).await;
    let over = SandboxChange { task_trigger: Some(TaskTrigger::Cancel), ..SandboxChange::default() };
    world.store.change_sandbox(&cancelled.id, over).await.expect("cancelled");
    assert!(world.store.give_up_node(&node.id, Duration::ZERO).await.expect("up"));
    for id in [&sandbox.id, &cancelled.id] {
        assert_eq!(world.store.replace_lost_sandbox(id, "gone", 1).await.expect("up"), None);
        assert_eq!(world.get_sandbox(id).await.state, SandboxState::Failed);
    }
    let task = world.get_task(&sandbox.task_id.expect("a task")).await;
    assert_eq!((task.status, task.error_message.as_deref()), (TaskState::Failed, Some("gone")));
    let left_alone = world.get_task(&cancelled.task_id.expect("a task")).await;
    assert_eq!(left_alone.status, TaskState::Cancelled);
}

/// Only tries that were lost count: what somebody said to the task in between begins a new row.
pub async fn counts_only_what_was_lost(world: World) {
    let node = entered(&world).await;
    let mut sandbox = claimed(&world, &node.id).await;
    let (task, by) = (sandbox.task_id.clone().expect("a task"), Some(TaskTrigger::Cancel));
    for round in 0..4 {
        let (trigger, task_trigger) = (Some(SandboxTrigger::Cancel), by);
        let over = SandboxChange { trigger, task_trigger, ..SandboxChange::default() };
        world.store.change_sandbox(&sandbox.id, over).await.expect("cancelled");
        sandbox = follow_up(&world, &sandbox.id, &format!("round {round}")).await.expect("goes on").sandbox;
    }
    assert!(sandbox.attempt > MOST, "it was followed up often");
    for loss in 1..MOST {
        let held = entered(&world).await;
        world.store.claim_sandbox(&sandbox.id, &held.id).await.expect("up").expect("free");
        assert!(world.store.give_up_node(&held.id, Duration::ZERO).await.expect("up"));
        let next = world.store.replace_lost_sandbox(&sandbox.id, "gone", MOST).await.expect("up");
        sandbox = next.expect("another try");
        assert_eq!(sandbox.terms.losses, loss);
    }
    let held = entered(&world).await;
    world.store.claim_sandbox(&sandbox.id, &held.id).await.expect("up").expect("free");
    assert!(world.store.give_up_node(&held.id, Duration::ZERO).await.expect("up"));
    assert_eq!(world.store.replace_lost_sandbox(&sandbox.id, "gone", MOST).await.expect("up"), None);
    assert_eq!(world.get_task(&task).await.status, TaskState::Failed);
}

/// A project's mirror is where it was first wanted.
pub async fn keeps_one_home(world: World) {
    let (one, two) = (entered(&world).await.id, entered(&world).await.id);
    let project = world.project("/repo").await;
    assert_eq!(project.home_node, None);
    let (left, right) =
        tokio::join!(world.store.ensure_home(&project.id, &one), world.store.ensure_home(&project.id, &two));
    let home = left.expect("up");
    assert_eq!(home, right.expect("up"));
    let kept = world.store.find_project(&project.id).await.expect("up").expect("it exists");
    assert_eq!(kept.home_node.as_ref(), Some(&home));
    let other = if home == one { &two } else { &one };
    assert!(world.store.give_up_node(&home, Duration::ZERO).await.expect("up"));
    let still = world.store.ensure_home(&project.id, other).await.expect("up");
    assert_eq!(still, home, "the repository is on its disk");
    let elsewhere = world.remote_project("https://host/repo").await;
    assert_eq!(world.store.ensure_home(&elsewhere.id, &home).await.expect("up"), home);
    assert_eq!(world.store.ensure_home(&elsewhere.id, other).await.expect("up"), *other, "its home is lost");
    let unknown = world.store.ensure_home(&ProjectId::generate(), &one).await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })), "{unknown:?}");
}
