//! What was answered is there after the store was dropped and opened again.

use std::sync::Arc;

use serde_json::json;
use sunaba_store::{
    EventQuery, EventStore as _, FeedStore as _, MessageStore as _, Noise, RegistryStore as _, Store as _,
    TakeMode, TrajectoryDirection, TrajectoryQuery, Writer,
};
use sunaba_store_sqlite::{OpenError, Options, SqliteStore};
use sunaba_types::{MessageType, NewMessage, SandboxId, SystemClock};

use crate::support::{append, event, numbered, open, second_connection};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_answered_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sunaba.db");
    let id = SandboxId::generate();
    let store = open(&path).await;
    append(&store, &id, numbered(10)).await.unwrap();
    let grep = event("agent.tool_use", json!({"tool": "Grep", "tool_use_id": "g", "turn": 1}));
    let started = event("agent.started", json!({"heartbeat": "continuous"}));
    append(&store, &id, vec![started, grep]).await.unwrap();
    let message = NewMessage {
        sandbox_id: id.clone(),
        content: "hello".to_owned(),
        message_type: MessageType::UserMessage,
        sender: "tester".to_owned(),
    };
    store.queue_message(message).await.unwrap();
    store.set_setting_once("node", "n1").await.unwrap();
    let (head, position) = (store.log_head(&id).await.unwrap(), store.feed_head().await.unwrap());
    let before = store.find_sandbox(&id).await.unwrap();
    drop(store);

    let store = open(&path).await;
    assert_eq!(store.log_head(&id).await.unwrap(), head);
    assert_eq!((store.feed_head().await.unwrap(), *store.hints().borrow()), (position, position));
    assert_eq!(store.find_sandbox(&id).await.unwrap(), before);
    assert_eq!(store.find_setting("node").await.unwrap().as_deref(), Some("n1"));
    let taken = store.take_messages(&id, Writer::Operator, TakeMode::Legacy).await.unwrap();
    assert_eq!(taken.len(), 1);
    let result = event("agent.tool_result", json!({"tool_use_id": "g", "turn": 1}));
    let outcomes = append(&store, &id, vec![result, event("agent.message", json!({"n": 10}))]).await.unwrap();
    assert_eq!(outcomes[1].as_ref().unwrap().seq, head.last_seq + 2);
    // Counters, the memory of noisy calls and the outline go on where they were.
    let of_type = EventQuery {
        event_types: vec!["agent.message".to_owned()],
        offset: 5,
        ..EventQuery::newest(id.clone(), 3)
    };
    let page = store.list_events(of_type).await.unwrap();
    assert_eq!(page.total_count, 11);
    assert_eq!(page.events.iter().map(|event| event.seq).collect::<Vec<_>>(), vec![6, 5, 4]);
    let story = TrajectoryQuery {
        sandbox_id: id.clone(),
        cursor: None,
        direction: TrajectoryDirection::Older,
        noise: Noise::Hidden,
        limit: 100,
    };
    let story = store.trajectory(story).await.unwrap();
    assert_eq!((story.events.len(), story.trajectory_events), (12, 12));
    let turns = store.outline(&id, None, 10).await.unwrap();
    assert_eq!((turns.len(), turns[0].first_seq, turns[0].last_seq), (1, 12, 13));
    let silence = store.find_sandbox(&id).await.unwrap().unwrap().alive_until.unwrap();
    let last = store.events_after(&id, 13, 1).await.unwrap().remove(0).created_at;
    assert_eq!(silence.duration_since(last).as_secs(), 75);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_commits_what_was_taken() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sunaba.db");
    let store = open(&path).await;
    let id = SandboxId::generate();
    let appends: Vec<_> = (0..50)
        .map(|_| {
            let (store, id) = (std::sync::Arc::clone(&store), id.clone());
            tokio::spawn(async move { append(&store, &id, numbered(2)).await.is_ok() })
        })
        .collect();
    store.close().await;
    let mut answered = 0;
    for append in appends {
        answered += usize::from(append.await.unwrap());
    }
    let store = open(&path).await;
    assert_eq!(store.events_after(&id, 0, 500).await.unwrap().len(), answered * 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_a_newer_program_has_changed_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sunaba.db");
    open(&path).await.close().await;
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'later', true, x'00', 1)",
    )
    .execute(&mut second_connection(&path).await)
    .await
    .unwrap();
    let refused = SqliteStore::open(Options::new(&path, Arc::new(SystemClock))).await.unwrap_err();
    assert!(matches!(refused, OpenError::TooNew { found: 9999, .. }), "{refused:?}");
    let words = refused.to_string();
    assert!(words.contains("sunaba.db has layout 9999") && words.contains("use that one"), "{words}");
}
