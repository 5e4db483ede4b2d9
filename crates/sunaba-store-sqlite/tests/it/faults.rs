//! What SQLite refuses, and a file that somebody else holds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::SqliteConnection;
use sunaba_store::{
    Error, EventStore as _, FeedStore as _, MessageStore as _, RegistryStore as _, Rejection, Reserve,
    SandboxChange, Settlement, Spender, SpendingStore as _, Store as _,
};
use sunaba_store_sqlite::{OpenError, Options, SqliteStore};
use sunaba_types::chain::GENESIS;
use sunaba_types::{MessageType, NewMessage, SandboxId, SandboxState, StoredEvent, SystemClock};

use crate::support::{append, event, numbered, open, second_connection};

async fn poison(path: &std::path::Path) {
    let mut connection = second_connection(path).await;
    for trigger in [
        "CREATE TRIGGER poison_events BEFORE INSERT ON events WHEN NEW.payload LIKE '%POISON%'
         BEGIN SELECT RAISE(ABORT, 'poisoned'); END",
        "CREATE TRIGGER poison_messages BEFORE INSERT ON messages WHEN NEW.content LIKE '%POISON%'
         BEGIN SELECT RAISE(ABORT, 'poisoned'); END",
    ] {
        sqlx::query(trigger).execute(&mut connection).await.unwrap();
    }
}

fn assert_chain(log: &[StoredEvent]) {
    let mut previous = GENESIS;
    for (event, seq) in log.iter().zip(1..) {
        assert_eq!((event.seq, event.hash), (seq, event.expected_hash(&previous)));
        previous = event.hash;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_poisoned_event_of_a_hundred_is_refused_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sunaba.db");
    let store = open(&path).await;
    poison(&path).await;
    let id = SandboxId::generate();
    let mut events = numbered(100);
    // It would end the sandbox; refused, it must not.
    events[41] = event("agent.failed", json!({"error": "POISON"}));
    let neighbours: Vec<SandboxId> = (0..8).map(|_| SandboxId::generate()).collect();
    let (outcomes, ()) = tokio::join!(append(&store, &id, events), async {
        for neighbour in &neighbours {
            assert!(append(&store, neighbour, numbered(3)).await.unwrap().iter().all(Result::is_ok));
        }
    });
    let outcomes = outcomes.unwrap();
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 99);
    assert_eq!(outcomes[41], Err(Rejection::Refused("poisoned".to_owned())));
    assert_eq!(outcomes[42].as_ref().unwrap().seq, 42, "the place it would have had is used");
    let log = store.events_after(&id, 0, 500).await.unwrap();
    assert_eq!(log.len(), 99);
    assert_chain(&log);
    assert_eq!(store.sandbox_state(&id).await.unwrap(), SandboxState::Running);
    let feed = store.feed_after(0, 500).await.unwrap();
    assert_eq!(feed.iter().filter(|entry| entry.seq.is_some()).count(), 99 + 8 * 3);
    assert_eq!(feed.last().unwrap().position, store.feed_head().await.unwrap());
    assert_eq!(*store.hints().borrow(), store.feed_head().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_event_that_is_refused_registers_only_its_sandbox() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sunaba.db");
    let store = open(&path).await;
    poison(&path).await;
    let id = SandboxId::generate();
    let outcomes = append(&store, &id, vec![event("x", json!({"text": "POISON"}))]).await.unwrap();
    assert!(matches!(outcomes[0], Err(Rejection::Refused(_))));
    assert!(store.find_sandbox(&id).await.unwrap().is_none(), "nothing of it is left");
    let outcomes = append(&store, &id, numbered(1)).await.unwrap();
    assert_eq!(outcomes[0].as_ref().unwrap().seq, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_command_does_not_take_others_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sunaba.db");
    let store = open(&path).await;
    poison(&path).await;
    let id = SandboxId::generate();
    append(&store, &id, numbered(1)).await.unwrap();
    let say = |content: &str| {
        store.queue_message(NewMessage {
            sandbox_id: id.clone(),
            content: content.to_owned(),
            message_type: MessageType::UserMessage,
            sender: "tester".to_owned(),
        })
    };
    let (good, bad, events, also) =
        tokio::join!(say("one"), say("POISON"), append(&store, &id, numbered(5)), say("two"));
    assert!(matches!(bad, Err(Error::Backend(_))), "{bad:?}");
    assert_eq!((good.unwrap().message.seq, also.unwrap().message.seq), (1, 2));
    assert!(events.unwrap().iter().all(Result::is_ok));
}

/// What the writer remembers of a sandbox's cost is what is stored, also after work beside it was undone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn costs_stay_true_when_work_beside_them_is_undone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sunaba.db");
    let store = open(&path).await;
    poison(&path).await;
    let id = SandboxId::generate();
    append(&store, &id, numbered(1)).await.unwrap();
    let pay = async |micros: i64| {
        let reserve = Reserve {
            sandbox_id: id.clone(),
            attempt: 1,
            node_id: None,
            dialect: "anthropic".to_owned(),
            model: "m".to_owned(),
            least_micros: 1,
            most_micros: 1_000,
        };
        let reserved = store.reserve_call(reserve).await.unwrap();
        let known_by = "usage".to_owned();
        let settled = Settlement { cost_micros: micros, known_by, ..Settlement::default() };
        assert!(store.settle_call(&reserved.id, settled).await.unwrap());
    };
    for round in 1..=5 {
        let message = NewMessage {
            sandbox_id: id.clone(),
            content: "POISON".to_owned(),
            message_type: MessageType::UserMessage,
            sender: "tester".to_owned(),
        };
        let (bad, bad_event, ..) = tokio::join!(
            store.queue_message(message),
            append(&store, &id, vec![event("x", json!({"text": "POISON"})), event("x", json!({}))]),
            pay(10),
            pay(20),
            pay(30),
        );
        assert!(bad.is_err() && bad_event.unwrap()[0].is_err());
        let sum = store.spending(&Spender::Sandbox(id.clone())).await.unwrap();
        assert_eq!((sum.cost_micros, sum.reserved_micros, sum.calls), (60 * round, 0, 3 * round));
        // One answers from what the writer remembers, the other from the file.
        let remembered = store.change_sandbox(&id, SandboxChange::default()).await.unwrap();
        let stored = store.find_sandbox(&id).await.unwrap().unwrap();
        assert_eq!((remembered.cost_micros, stored.cost_micros), (60 * round, 60 * round));
    }
}

async fn hold(connection: &mut SqliteConnection) {
    sqlx::query("BEGIN IMMEDIATE").execute(connection).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_file_is_unavailable_in_time_and_recovers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sunaba.db");
    let store = open(&path).await;
    let id = SandboxId::generate();
    append(&store, &id, numbered(1)).await.unwrap();
    let mut other = second_connection(&path).await;
    hold(&mut other).await;
    let started = Instant::now();
    let retried = numbered(10);
    let waiting: Vec<_> = (0..20)
        .map(|n| {
            let (store, id) = (Arc::clone(&store), id.clone());
            let events = if n == 0 { retried.clone() } else { numbered(10) };
            tokio::spawn(async move { append(&store, &id, events).await })
        })
        .collect();
    for result in waiting {
        let result = result.await.unwrap();
        assert!(matches!(result, Err(Error::Unavailable(_))), "{result:?}");
    }
    assert!(matches!(store.check().await, Err(Error::Unavailable(_))));
    assert!(started.elapsed() < Duration::from_secs(4), "two waits took {:?}", started.elapsed());
    let listed = store.events_after(&id, 0, 100).await.unwrap();
    assert_eq!(listed.len(), 1, "readers go on, nothing is half done");
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    store.check().await.unwrap();
    let outcomes = append(&store, &id, retried).await.unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().is_ok_and(|appended| !appended.duplicate)));
    assert_chain(&store.events_after(&id, 0, 100).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_hold_is_waited_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sunaba.db");
    let store = open(&path).await;
    let id = SandboxId::generate();
    let mut other = second_connection(&path).await;
    hold(&mut other).await;
    let mut appending = tokio::spawn({
        let (store, id) = (Arc::clone(&store), id.clone());
        async move { append(&store, &id, numbered(1)).await }
    });
    let early = tokio::time::timeout(Duration::from_millis(100), &mut appending).await;
    assert!(early.is_err(), "it waits for the file");
    sqlx::query("COMMIT").execute(&mut other).await.unwrap();
    assert!(appending.await.unwrap().unwrap()[0].is_ok());
}

#[tokio::test]
async fn a_file_that_is_no_database_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sunaba.db");
    std::fs::write(&path, "this is a letter, not a database\n".repeat(100)).unwrap();
    let error = SqliteStore::open(Options::new(&path, Arc::new(SystemClock))).await.unwrap_err();
    assert!(matches!(&error, OpenError::Open { path: named, .. } if *named == path), "{error:?}");
}
