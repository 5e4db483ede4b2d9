//! The feed: one order, nothing lost, nothing twice.

use std::sync::Arc;

use serde_json::json;
use sunaba_engine::{SandboxTrigger, TaskTrigger};

use super::world::{World, event, event_with_id, numbered, own};
use crate::{FeedEntry, PublishedPayload, SandboxChange, Writer};

fn names(feed: &[Arc<FeedEntry>]) -> Vec<&str> {
    feed.iter().map(|entry| entry.event_type.as_str()).collect()
}

/// A reader that goes on from its last position sees every entry once, whatever happens meanwhile.
pub async fn publishes_in_order_without_loss(world: World) {
    let world = std::sync::Arc::new(world);
    let id = world.external(numbered("agent.message", 1..=1)).await;
    let writers = (0..8).map(|_| {
        let (world, id) = (std::sync::Arc::clone(&world), id.clone());
        tokio::spawn(async move {
            for _ in 0..20 {
                world.append(&id, Writer::Operator, numbered("agent.message", 1..=2)).await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let (mut seen, mut last) = (Vec::new(), 0);
    loop {
        let done = writers.iter().all(tokio::task::JoinHandle::is_finished);
        for entry in world.feed(last).await {
            assert!(entry.position > last, "positions rise");
            last = entry.position;
            seen.extend(entry.seq);
        }
        if done && world.store.feed_head().await.expect("up") == last {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(seen, (1..=321).collect::<Vec<_>>());
}

/// An event's entry carries its id, place, source, type and bytes.
pub async fn refers_to_events(world: World) {
    let (task, sandbox) = world.creating().await;
    let before = world.store.feed_head().await.expect("up");
    world.append(&sandbox.id, own(&sandbox), vec![event_with_id("e-1", "agent.x", json!({"n": 1}))]).await;
    let feed = world.feed(before).await;
    assert_eq!(names(&feed), vec!["SANDBOX_agent.x", "SANDBOX_STATE_CHANGED"]);
    let entry = &feed[0];
    assert_eq!((entry.id.as_str(), entry.seq), ("e-1", Some(2)));
    assert_eq!((&*entry.entity_type, entry.entity_id.as_str()), ("sandbox", sandbox.id.as_str()));
    assert_eq!(entry.project_id, Some(task.project_id));
    let PublishedPayload::Event { payload, source, event_type } = &entry.payload else {
        panic!("an event is referred to, not told anew")
    };
    assert_eq!((payload.as_str(), source.as_str(), event_type.as_str()), (r#"{"n":1}"#, "agent", "agent.x"));
    assert_ne!(feed[1].id, entry.id);
}

/// The names of a whole run, with the fields of a task's payload.
pub async fn publishes_task_names(world: World) {
    let (task, sandbox) = world.running().await;
    world.append(&sandbox.id, own(&sandbox), vec![event("agent.completed", json!({"success": true}))]).await;
    let done = SandboxChange {
        trigger: Some(SandboxTrigger::ResultRecorded),
        task_trigger: Some(TaskTrigger::ResultRecorded),
        ..SandboxChange::default()
    };
    world.store.change_sandbox(&sandbox.id, done).await.expect("legal");
    let feed = world.feed(0).await;
    let published = names(&feed);
    for name in [
        "TASK_CREATED",
        "TASK_ASSIGNED",
        "TASK_STARTED",
        "TASK_COMPLETED",
        "TASK_STATUS_CHANGED",
        "SANDBOX_SPAWNED",
        "SANDBOX_STATE_CHANGED",
        "SANDBOX_TERMINATED",
    ] {
        assert!(published.contains(&name), "{name} in {published:?}");
    }
    assert!(!published.contains(&"SANDBOX_FAILED"));
    let entry = feed.iter().find(|entry| entry.event_type == "TASK_COMPLETED").expect("checked above");
    assert_eq!((&*entry.entity_type, entry.entity_id.as_str()), ("task", task.id.as_str()));
    let PublishedPayload::Notice(payload) = &entry.payload else { panic!("a task is no sandbox event") };
    let payload = payload.to_value();
    assert_eq!((&payload["status"], &payload["old_status"]), (&json!("completed"), &json!("running")));
    for field in ["task_id", "ticket_id", "phase_id", "task_type", "priority", "error_message", "has_result"]
    {
        assert!(payload.get(field).is_some(), "{field}");
    }
}

/// A hint follows every commit and never runs ahead of it.
pub async fn hints_after_commit(world: World) {
    let mut hints = world.store.hints();
    let id = world.external(numbered("agent.message", 1..=3)).await;
    let hinted = *hints.borrow_and_update();
    assert_eq!(hinted, world.store.feed_head().await.expect("up"));
    world.post(&id, event("agent.message", json!({}))).await;
    assert!(hints.has_changed().expect("the store lives"));
    assert_eq!(world.feed(hinted).await.len(), 1);
}

/// A retried event is published once.
pub async fn publishes_a_retry_once(world: World) {
    let id = world.external(vec![event_with_id("e-1", "agent.x", json!({}))]).await;
    let before = world.store.feed_head().await.expect("up");
    world.post(&id, event_with_id("e-1", "agent.x", json!({}))).await;
    assert_eq!(world.store.feed_head().await.expect("up"), before);
}
