//! What was answered is there after the store was opened again, and after PostgreSQL was killed under load.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use sunaba_store::{
    Error, EventQuery, EventStore as _, FeedStore as _, MessageStore as _, Noise, RegistryStore as _,
    Store as _, TakeMode, TrajectoryDirection, TrajectoryQuery, Writer,
};
use sunaba_store_postgres::PostgresStore;
use sunaba_testkit::{Postgres, eventually};
use sunaba_types::{MessageType, NewMessage, SandboxId};

use crate::support::{append, assert_chain, event, log, numbered, open};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_answered_is_there_after_a_restart() {
    let url = Postgres::shared().database();
    let id = SandboxId::generate();
    let store = open(&url).await;
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

    let store = open(&url).await;
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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_commits_what_was_taken() {
    let url = Postgres::shared().database();
    let store = open(&url).await;
    let id = SandboxId::generate();
    append(&store, &id, numbered(2)).await.unwrap();
    let appends: Vec<_> = (0..50)
        .map(|_| {
            let (store, id) = (Arc::clone(&store), id.clone());
            tokio::spawn(async move { append(&store, &id, numbered(2)).await.is_ok() })
        })
        .collect();
    store.close().await;
    let mut answered = 1;
    for append in appends {
        answered += usize::from(append.await.unwrap());
    }
    let store = open(&url).await;
    assert_eq!(store.events_after(&id, 0, 500).await.unwrap().len(), answered * 2);
}

/// What one writer was told: acknowledged ids, and how often it was told to try again.
struct Account {
    id: SandboxId,
    acknowledged: HashSet<String>,
    refused: usize,
}

/// Writes until it is told to stop; what is not acknowledged is sent again as it was.
async fn keep_writing(store: Arc<PostgresStore>, stop: Arc<AtomicBool>, count: Arc<AtomicUsize>) -> Account {
    let mut account = Account { id: SandboxId::generate(), acknowledged: HashSet::new(), refused: 0 };
    while !stop.load(Ordering::SeqCst) {
        let events = numbered(3);
        loop {
            match append(&store, &account.id, events.clone()).await {
                Ok(outcomes) => {
                    let ids = outcomes.into_iter().map(|outcome| outcome.unwrap().event_id);
                    account.acknowledged.extend(ids);
                    count.fetch_add(1, Ordering::SeqCst);
                    break;
                }
                Err(Error::Unavailable(_)) => account.refused += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    account
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_postgresql_is_killed() {
    let server = Arc::new(Postgres::start());
    let url = server.database();
    let stores = [open(&url).await, open(&url).await];
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let writers: Vec<_> = (0..16)
        .map(|n| {
            tokio::spawn(keep_writing(Arc::clone(&stores[n % 2]), Arc::clone(&stop), Arc::clone(&count)))
        })
        .collect();
    let kills = std::env::var("SUNABA_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    for _ in 0..kills {
        let before = count.load(Ordering::SeqCst);
        eventually("writing goes on", async || count.load(Ordering::SeqCst) > before + 50).await;
        let own = Arc::clone(&server);
        tokio::task::spawn_blocking(move || {
            own.kill();
            // Long enough for writers to find nobody there.
            std::thread::sleep(Duration::from_millis(300));
            own.revive();
        })
        .await
        .unwrap();
    }
    let before = count.load(Ordering::SeqCst);
    eventually("writing goes on", async || count.load(Ordering::SeqCst) > before + 50).await;
    stop.store(true, Ordering::SeqCst);
    let (mut acknowledged, mut refused) = (0, 0);
    for writer in writers {
        let account = writer.await.unwrap();
        let log = log(&stores[0], &account.id).await;
        assert_chain(&log);
        let stored: HashSet<String> = log.into_iter().map(|event| event.event_id).collect();
        assert_eq!(stored, account.acknowledged, "each acknowledged event, and no other, is stored once");
        acknowledged += account.acknowledged.len();
        refused += account.refused;
    }
    println!("{acknowledged} events acknowledged over {kills} kills, {refused} requests told to try again");
    let hint = *stores[1].hints().borrow();
    append(&stores[0], &SandboxId::generate(), numbered(1)).await.unwrap();
    let hints = stores[1].hints();
    eventually("the other listens again", async || *hints.borrow() > hint).await;
    stores[0].check().await.unwrap();
}
