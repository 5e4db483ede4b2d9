//! What events cause, in the transaction that stores them.

use serde_json::{Value, json};
use sunaba_engine::SandboxTrigger;
use sunaba_types::limits::{CONTINUOUS_SILENCE_SECONDS, LEGACY_SILENCE_SECONDS};
use sunaba_types::{SandboxState, Source, TaskState};

use super::world::{World, event, own, types};
use crate::Writer;

/// `creating → running` on the first event of any type.
pub async fn runs_on_the_first_event(world: World) {
    let (task, sandbox) = world.creating().await;
    assert_eq!((sandbox.state, task.status), (SandboxState::Creating, TaskState::Assigned));
    world.append(&sandbox.id, own(&sandbox), vec![event("agent.heartbeat", json!({}))]).await;
    assert_eq!(world.store.sandbox_state(&sandbox.id).await.expect("it exists"), SandboxState::Running);
    assert_eq!(world.get_task(&task.id).await.status, TaskState::Assigned);
    world.append(&sandbox.id, own(&sandbox), vec![event("agent.started", json!({}))]).await;
    let started = world.get_task(&task.id).await;
    assert_eq!(started.status, TaskState::Running);
    assert!(started.started_at.is_some());
}

/// The agent saying it is done moves the sandbox, not the task.
pub async fn completes_when_the_agent_is_done(world: World) {
    let (task, sandbox) = world.running().await;
    let not_yet = event("agent.completed", json!({"success": false}));
    let done = event("agent.completed", json!({"success": true}));
    world.append(&sandbox.id, own(&sandbox), vec![not_yet]).await;
    assert_eq!(world.get_sandbox(&sandbox.id).await.state, SandboxState::Running);
    world.append(&sandbox.id, own(&sandbox), vec![done]).await;
    assert_eq!(world.get_sandbox(&sandbox.id).await.state, SandboxState::Completing);
    assert_eq!(world.get_task(&task.id).await.status, TaskState::Running);
}

/// A failure ends sandbox and task with its reason.
pub async fn fails_with_the_reason(world: World) {
    let (task, sandbox) = world.running().await;
    world.append(&sandbox.id, own(&sandbox), vec![event("agent.failed", json!({"error": "boom"}))]).await;
    let after = world.get_sandbox(&sandbox.id).await;
    assert_eq!((after.state, after.reason.as_deref()), (SandboxState::Failed, Some("boom")));
    assert!(after.ended_at.is_some());
    let task = world.get_task(&task.id).await;
    assert_eq!((task.status, task.error_message.as_deref()), (TaskState::Failed, Some("boom")));
    assert!(task.completed_at.is_some());
}

/// Each state change stands in the log, by the server, right after what caused it.
pub async fn records_state_changes_in_the_log(world: World) {
    let (_, sandbox) = world.creating().await;
    let events = vec![event("agent.started", json!({})), event("agent.error", json!({"error": "boom"}))];
    let outcomes = world.append(&sandbox.id, own(&sandbox), events).await;
    let given: Vec<i64> = outcomes.iter().map(|o| o.as_ref().expect("taken").seq).collect();
    assert_eq!(given, vec![2, 4], "what they caused stands between them");
    let log = world.log(&sandbox.id).await;
    let expected = [
        "sandbox.state_changed",
        "agent.started",
        "sandbox.state_changed",
        "agent.error",
        "sandbox.state_changed",
    ];
    assert_eq!(types(&log), expected);
    let changes: Vec<Value> =
        log.iter().filter(|e| e.source == Source::System).map(|e| e.payload.to_value()).collect();
    let wanted = [
        json!({"from": "pending", "to": "creating"}),
        json!({"from": "creating", "to": "running"}),
        json!({"from": "running", "to": "failed", "reason": "boom"}),
    ];
    assert_eq!(changes, wanted);
}

/// Every event moves `alive_until`: 75 s for who heartbeats continuously and as usual, else 15 minutes.
pub async fn moves_liveness(world: World) {
    let (_, sandbox) = world.creating().await;
    let alive = async || {
        let row = world.get_sandbox(&sandbox.id).await;
        row.alive_until.map(|until| until.duration_since(sunaba_types::Clock::now(&*world.clock)).as_secs())
    };
    assert_eq!(alive().await, None);
    world.append(&sandbox.id, own(&sandbox), vec![event("x", json!({}))]).await;
    assert_eq!(alive().await, Some(LEGACY_SILENCE_SECONDS));
    let started = event("agent.started", json!({"heartbeat": "continuous"}));
    world.append(&sandbox.id, own(&sandbox), vec![started]).await;
    assert_eq!(alive().await, Some(CONTINUOUS_SILENCE_SECONDS));
    world.pass(20);
    assert_eq!(alive().await, Some(CONTINUOUS_SILENCE_SECONDS - 20));
    world.append(&sandbox.id, Writer::Server, vec![event("gateway.git", json!({}))]).await;
    assert_eq!(alive().await, Some(CONTINUOUS_SILENCE_SECONDS - 20), "the server's word is no sign of life");
    world.append(&sandbox.id, own(&sandbox), vec![event("x", json!({}))]).await;
    assert_eq!(alive().await, Some(CONTINUOUS_SILENCE_SECONDS));
    let rarely = event("agent.started", json!({"heartbeat": "continuous", "heartbeat_seconds": 60.0}));
    world.append(&sandbox.id, own(&sandbox), vec![rarely]).await;
    assert_eq!(alive().await, Some(CONTINUOUS_SILENCE_SECONDS * 2));
    assert_eq!(world.get_sandbox(&sandbox.id).await.silence_seconds, CONTINUOUS_SILENCE_SECONDS * 2);
    world.append(&sandbox.id, own(&sandbox), vec![event("agent.started", json!({}))]).await;
    assert_eq!(alive().await, Some(LEGACY_SILENCE_SECONDS));
    assert_eq!(world.get_sandbox(&sandbox.id).await.silence_seconds, LEGACY_SILENCE_SECONDS);
}

/// What an operator reports for an old sandbox does not touch the task of a newer attempt.
pub async fn leaves_a_newer_attempt_alone(world: World) {
    let (task, first) = world.running().await;
    world.fail_and_retry(&first.id).await;
    let second = world.assign(&task.id).await;
    world.append(&first.id, Writer::Operator, vec![event("agent.failed", json!({}))]).await;
    let now = world.get_task(&task.id).await;
    assert_eq!((now.status, now.sandbox_id), (TaskState::Assigned, Some(second.id)));
}

/// The server's own events derive nothing.
pub async fn ignores_what_the_server_writes(world: World) {
    let (_, sandbox) = world.creating().await;
    world.append(&sandbox.id, Writer::Server, vec![event("agent.failed", json!({}))]).await;
    assert_eq!(world.get_sandbox(&sandbox.id).await.state, SandboxState::Creating);
    world.step(&sandbox.id, SandboxTrigger::Cancel).await;
}
