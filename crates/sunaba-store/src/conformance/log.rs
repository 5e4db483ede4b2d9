//! Appending: numbers, retries, conflicts, fencing, the end.

use serde_json::json;
use sunaba_engine::SandboxTrigger;
use sunaba_types::{EventPayload, SandboxId, SandboxState, Step};

use super::world::{World, assert_chain, event, event_with_id, new_sandbox, numbered, own, seqs, types};
use crate::{Append, EVENT_TYPES_MAX, Error, Rejection, Writer};

/// A log has only so many types of events; those that it has go on, and so does the server.
pub async fn bounds_the_types(world: World) {
    let many = (0..EVENT_TYPES_MAX).map(|n| event(&format!("t{n}"), json!({}))).collect();
    let id = world.external(many).await;
    let late = vec![event("t7", json!({})), event("one.more", json!({})), event("t8", json!({}))];
    let outcomes = world.append(&id, Writer::Operator, late).await;
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok(), "{outcomes:?}");
    assert_eq!(outcomes[1], Err(Rejection::TooManyTypes));
    let own = world.append(&id, Writer::Server, vec![event("sandbox.note", json!({}))]).await;
    assert!(own[0].is_ok(), "{own:?}");
}

/// `seq` is 1, 2, 3 … in the order of the request.
pub async fn numbers_events_without_gaps(world: World) {
    let id = world.external(numbered("agent.message", 1..=30)).await;
    let other = world.external(numbered("agent.message", 1..=3)).await;
    for round in 0..3 {
        let outcomes = world.append(&id, Writer::Operator, numbered("agent.message", 1..=4)).await;
        let given: Vec<i64> = outcomes.iter().map(|o| o.as_ref().expect("taken").seq).collect();
        let first = 31 + round * 4;
        assert_eq!(given, (first..first + 4).collect::<Vec<_>>());
    }
    assert_eq!(seqs(&world.log(&id).await), (1..=42).collect::<Vec<_>>());
    assert_eq!(seqs(&world.log(&other).await), vec![1, 2, 3]);
}

/// The same id with the same content is stored once and answered with the first place and time.
pub async fn stores_a_retried_event_once(world: World) {
    let id = SandboxId::generate();
    let first = world.post(&id, event_with_id("e-1", "agent.message", json!({"n": 1}))).await;
    world.post(&id, event("agent.message", json!({}))).await;
    world.pass(5);
    let again = world.post(&id, event_with_id("e-1", "agent.message", json!({"n": 1}))).await;
    assert!(again.duplicate && !first.duplicate);
    assert_eq!((again.seq, again.created_at), (first.seq, first.created_at));
    let twice = event_with_id("e-2", "agent.message", json!({}));
    let outcomes = world.append(&id, Writer::Operator, vec![twice.clone(), twice]).await;
    let places: Vec<(i64, bool)> =
        outcomes.iter().map(|o| o.as_ref().map(|a| (a.seq, a.duplicate)).expect("taken")).collect();
    assert_eq!(places, vec![(3, false), (3, true)]);
    assert_eq!(world.log(&id).await.len(), 3);
    let elsewhere = world.post(&SandboxId::generate(), event_with_id("e-1", "x", json!({}))).await;
    assert_eq!((elsewhere.seq, elsewhere.duplicate), (1, false), "ids are a sandbox's own");
}

/// A retry of something stored is answered even when new events are no longer taken.
pub async fn answers_a_retry_after_the_end(world: World) {
    let id = SandboxId::generate();
    let first = world.post(&id, event_with_id("e-1", "agent.message", json!({}))).await;
    world.step(&id, SandboxTrigger::Cancel).await;
    world.pass(3600);
    let again = world.post(&id, event_with_id("e-1", "agent.message", json!({}))).await;
    assert_eq!((again.seq, again.duplicate), (first.seq, true));
}

/// The same id with other content is a conflict and changes nothing.
pub async fn refuses_an_id_used_for_something_else(world: World) {
    let id = SandboxId::generate();
    world.post(&id, event_with_id("e-1", "agent.message", json!({"n": 1}))).await;
    let mut with_step = event_with_id("e-1", "agent.message", json!({"n": 1}));
    with_step.step = Some(Step { tree: "t".to_owned(), parent: None, event_id: None });
    let others = vec![
        event_with_id("e-1", "agent.message", json!({"n": 2})),
        event_with_id("e-1", "agent.thinking", json!({"n": 1})),
        with_step,
    ];
    let outcomes = world.append(&id, Writer::Operator, others).await;
    assert_eq!(outcomes, vec![Err(Rejection::EventIdConflict); 3]);
    assert_eq!(world.log(&id).await.len(), 1);
}

/// A conflict inside one request rejects the later event only.
pub async fn refuses_a_conflict_inside_a_batch(world: World) {
    let id = SandboxId::generate();
    let events = vec![
        event_with_id("a", "agent.message", json!({"n": 1})),
        event_with_id("a", "agent.message", json!({"n": 2})),
        event_with_id("b", "agent.message", json!({"n": 3})),
    ];
    let outcomes = world.append(&id, Writer::Registrar, events).await;
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok());
    assert_eq!(outcomes[1], Err(Rejection::EventIdConflict));
    assert_eq!(seqs(&world.log(&id).await), vec![1, 2]);
}

/// A payload comes back byte for byte: spacing, key order, escapes and all.
pub async fn keeps_payload_bytes(world: World) {
    let texts = [
        "{ \"b\" : 1,\t\"a\":[ ] }",
        r#"{"text":"\u0041\ud83d\ude00\ud800 \\u0000 \/ 🦀 \u007f"}"#,
        r#"{"a":1,"a":2,"n":1.0e400,"big":123456789012345678901234567890}"#,
        "{\n}",
    ];
    let events = texts.iter().map(|text| {
        let mut event = event("agent.message", json!({}));
        event.payload = EventPayload::from_stored((*text).to_owned()).expect("JSON");
        event
    });
    let id = world.external(events.collect()).await;
    let log = world.log(&id).await;
    let held: Vec<&str> = log.iter().map(|event| event.payload.as_str()).collect();
    assert_eq!(held, texts);
    assert_chain(&log);
    let feed = world.feed(0).await;
    let published = feed.iter().filter_map(|entry| match &entry.payload {
        crate::PublishedPayload::Event { payload, .. } => Some(payload.as_str()),
        crate::PublishedPayload::Notice(_) => None,
    });
    assert_eq!(published.collect::<Vec<_>>(), texts);
}

/// Every event's hash follows from the one before, across requests and state changes.
pub async fn chains_events(world: World) {
    let (_, sandbox) = world.running().await;
    world.pass(1);
    world.append(&sandbox.id, own(&sandbox), numbered("agent.message", 1..=5)).await;
    world.append(&sandbox.id, own(&sandbox), vec![event("agent.failed", json!({"error": "x"}))]).await;
    let log = world.log(&sandbox.id).await;
    assert_chain(&log);
    let head = world.store.log_head(&sandbox.id).await.expect("it exists");
    let last = log.last().expect("not empty");
    assert_eq!((head.last_seq, head.last_hash), (last.seq, last.hash));
}

/// A superseded attempt can no longer write.
pub async fn fences_a_superseded_attempt(world: World) {
    let (task, first) = world.running().await;
    world.fail_and_retry(&first.id).await;
    let before = world.log(&first.id).await.len();
    let still = world.append(&first.id, own(&first), vec![event("agent.message", json!({}))]).await;
    assert!(still[0].is_ok(), "ended, not superseded yet");
    let second = world.assign(&task.id).await;
    assert_eq!((first.attempt, second.attempt), (1, 2));
    let late = world.append(&first.id, own(&first), vec![event("agent.message", json!({}))]).await;
    assert_eq!(late, vec![Err(Rejection::AttemptSuperseded)]);
    assert_eq!(world.log(&first.id).await.len(), before + 1);
    let current = world.append(&second.id, own(&second), vec![event("agent.message", json!({}))]).await;
    assert!(current[0].is_ok());
}

/// A token bound to another attempt opens nothing.
pub async fn fences_a_foreign_attempt(world: World) {
    let (_, sandbox) = world.running().await;
    for attempt in [0, 2] {
        let writer = Writer::Sandbox { attempt };
        let outcome = world.append(&sandbox.id, writer, vec![event("agent.message", json!({}))]).await;
        assert_eq!(outcome, vec![Err(Rejection::AttemptSuperseded)]);
    }
}

/// Events of an ended sandbox are recorded without effect for ten minutes, then refused.
pub async fn takes_late_events_for_ten_minutes(world: World) {
    let (task, sandbox) = world.running().await;
    world.step(&sandbox.id, SandboxTrigger::Fail).await;
    world.pass(599);
    let late = world
        .append(&sandbox.id, own(&sandbox), vec![event("agent.completed", json!({"success": true}))])
        .await;
    assert!(late[0].is_ok());
    let after = world.get_sandbox(&sandbox.id).await;
    assert_eq!(after.state, SandboxState::Failed);
    assert_eq!(world.get_task(&task.id).await.status, task.status);
    world.pass(1);
    let too_late = world.append(&sandbox.id, own(&sandbox), vec![event("agent.message", json!({}))]).await;
    assert_eq!(too_late, vec![Err(Rejection::SandboxEnded)]);
    let operator = world.append(&sandbox.id, Writer::Operator, vec![event("x", json!({}))]).await;
    assert_eq!(operator, vec![Err(Rejection::SandboxEnded)]);
}

/// The server records whatever state a sandbox is in.
pub async fn takes_server_events_for_ever(world: World) {
    let (_, sandbox) = world.running().await;
    world.step(&sandbox.id, SandboxTrigger::Cancel).await;
    world.pass(100_000);
    let outcome = world.append(&sandbox.id, Writer::Server, vec![event("gateway.git", json!({}))]).await;
    assert!(outcome[0].is_ok());
}

/// Only a registrar may make a sandbox known by its first event.
pub async fn knows_who_may_register(world: World) {
    let id = SandboxId::parse("worker-7").expect("a foreign id");
    for writer in [Writer::Operator, Writer::Server, Writer::Sandbox { attempt: 1 }] {
        let outcome = world.append(&id, writer, vec![event("x", json!({}))]).await;
        assert_eq!(outcome, vec![Err(Rejection::UnknownSandbox)], "{writer:?}");
    }
    assert!(world.store.find_sandbox(&id).await.expect("up").is_none());
    world.post(&id, event("agent.started", json!({}))).await;
    let sandbox = world.get_sandbox(&id).await;
    assert_eq!((sandbox.provider.as_str(), sandbox.state), ("external", SandboxState::Running));
    assert_eq!((sandbox.project_id, sandbox.task_id), (None, None));
    assert_eq!(types(&world.log(&id).await), vec!["agent.started"], "registration itself is not an event");
}

/// Heartbeats are counted apart, with the first and the last.
pub async fn counts_heartbeats(world: World) {
    let id = world.external(vec![event("agent.message", json!({}))]).await;
    let empty = world.store.log_head(&id).await.expect("it exists");
    assert_eq!((empty.heartbeat_count, empty.first_heartbeat), (0, None));
    let first = world.post(&id, event("agent.heartbeat", json!({}))).await.created_at;
    world.pass(30);
    world.post(&id, event("spec.heartbeat", json!({}))).await;
    world.pass(30);
    let last = world.post(&id, event("heartbeat", json!({}))).await.created_at;
    let head = world.store.log_head(&id).await.expect("it exists");
    assert_eq!(head.heartbeat_count, 3);
    assert_eq!((head.first_heartbeat, head.last_heartbeat), (Some(first), Some(last)));
    assert_eq!(head.last_seq, 4);
}

/// A request without events is answered and registers nobody.
pub async fn appends_nothing_for_an_empty_request(world: World) {
    let id = SandboxId::generate();
    assert!(world.append(&id, Writer::Registrar, Vec::new()).await.is_empty());
    assert!(world.store.find_sandbox(&id).await.expect("up").is_none());
    let head = world.store.log_head(&id).await;
    assert!(matches!(head, Err(Error::NotFound { .. })));
    let made = world.store.create_sandbox(new_sandbox(None)).await.expect("a sandbox");
    let append = Append { sandbox_id: made.id.clone(), writer: Writer::Operator, events: Vec::new() };
    assert!(world.store.append(append).await.expect("up").is_empty());
    assert_eq!(world.store.log_head(&made.id).await.expect("it exists").last_seq, 0);
}
