//! What PostgreSQL refuses, and rows that somebody else holds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::{Executor as _, Row as _};
use sunaba_store::{
    Error, EventStore as _, FeedStore as _, MessageStore as _, RegistryStore as _, Rejection, Reserve,
    SandboxChange, Settlement, Spender, SpendingStore as _, Store as _,
};
use sunaba_testkit::Postgres;
use sunaba_types::{MessageType, NewMessage, SandboxId, SandboxState};

use crate::support::{append, assert_chain, event, log, numbered, open, second_connection};

async fn poison(url: &str) {
    let mut connection = second_connection(url).await;
    connection
        .execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
             $$BEGIN RAISE EXCEPTION 'poisoned'; END$$;
             CREATE TRIGGER poison BEFORE INSERT ON events FOR EACH ROW
             WHEN (position('POISON'::bytea IN NEW.payload) > 0) EXECUTE FUNCTION refuse();
             CREATE TRIGGER poison BEFORE INSERT ON messages FOR EACH ROW
             WHEN (NEW.content LIKE '%POISON%') EXECUTE FUNCTION refuse()",
        )
        .await
        .unwrap();
}

fn say(id: &SandboxId, content: &str) -> NewMessage {
    NewMessage {
        sandbox_id: id.clone(),
        content: content.to_owned(),
        message_type: MessageType::UserMessage,
        sender: "tester".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_poisoned_event_of_a_hundred_is_refused_alone() {
    let url = Postgres::shared().database();
    let store = open(&url).await;
    poison(&url).await;
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
    let log = log(&store, &id).await;
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
    let url = Postgres::shared().database();
    let store = open(&url).await;
    poison(&url).await;
    let id = SandboxId::generate();
    let outcomes = append(&store, &id, vec![event("x", json!({"text": "POISON"}))]).await.unwrap();
    assert!(matches!(outcomes[0], Err(Rejection::Refused(_))));
    assert!(store.find_sandbox(&id).await.unwrap().is_none(), "nothing of it is left");
    let outcomes = append(&store, &id, numbered(1)).await.unwrap();
    assert_eq!(outcomes[0].as_ref().unwrap().seq, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_command_does_not_take_others_with_it() {
    let url = Postgres::shared().database();
    let store = open(&url).await;
    poison(&url).await;
    let id = SandboxId::generate();
    append(&store, &id, numbered(1)).await.unwrap();
    let (good, bad, events, also) = tokio::join!(
        store.queue_message(say(&id, "one")),
        store.queue_message(say(&id, "POISON")),
        append(&store, &id, numbered(5)),
        store.queue_message(say(&id, "two"))
    );
    assert!(matches!(bad, Err(Error::Backend(_))), "{bad:?}");
    let mut places = vec![good.unwrap().message.seq, also.unwrap().message.seq];
    places.sort_unstable();
    assert_eq!(places, vec![1, 2]);
    assert!(events.unwrap().iter().all(Result::is_ok));
}

/// Sums on rows and sums of calls agree, also after work beside them was undone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn costs_stay_true_when_work_beside_them_is_undone() {
    let url = Postgres::shared().database();
    let store = open(&url).await;
    poison(&url).await;
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
        let (bad, bad_event, ..) = tokio::join!(
            store.queue_message(say(&id, "POISON")),
            append(&store, &id, vec![event("x", json!({"text": "POISON"})), event("x", json!({}))]),
            pay(10),
            pay(20),
            pay(30),
        );
        assert!(bad.is_err() && bad_event.unwrap()[0].is_err());
        let sum = store.spending(&Spender::Sandbox(id.clone())).await.unwrap();
        assert_eq!((sum.cost_micros, sum.reserved_micros, sum.calls), (60 * round, 0, 3 * round));
        // One answers from what the transaction knows, the other from the table.
        let known = store.change_sandbox(&id, SandboxChange::default()).await.unwrap();
        let stored = store.find_sandbox(&id).await.unwrap().unwrap();
        assert_eq!((known.cost_micros, stored.cost_micros), (60 * round, 60 * round));
    }
}

/// Whoever holds the counter holds everybody up, for a bounded time, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_counter_is_unavailable_in_time_and_recovers() {
    let url = Postgres::shared().database();
    let store = open(&url).await;
    let id = SandboxId::generate();
    append(&store, &id, numbered(1)).await.unwrap();
    let mut other = second_connection(&url).await;
    other.execute("BEGIN; SELECT 1 FROM feed_counter FOR UPDATE").await.unwrap();
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
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    assert!(matches!(store.check().await, Err(Error::Unavailable(_))));
    assert_eq!(store.log_head(&id).await.unwrap().last_seq, 1, "reading goes on and nothing was stored");
    other.execute("ROLLBACK").await.unwrap();
    let outcomes = append(&store, &id, retried).await.unwrap();
    assert_eq!(outcomes[0].as_ref().unwrap().seq, 2);
    store.check().await.unwrap();
}

/// A statement that takes too long is ended by PostgreSQL: its writers are told in time, and nothing is left of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_hangs_is_ended() {
    let url = Postgres::shared().database();
    let store = open(&url).await;
    let (id, fresh) = (SandboxId::generate(), SandboxId::generate());
    append(&store, &id, numbered(1)).await.unwrap();
    let mut other = second_connection(&url).await;
    other
        .execute(
            "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
             $$BEGIN PERFORM pg_sleep(20); RETURN NEW; END$$;
             CREATE TRIGGER slow BEFORE INSERT ON events FOR EACH ROW
             WHEN (position('SLOW'::bytea IN NEW.payload) > 0) EXECUTE FUNCTION dawdle()",
        )
        .await
        .unwrap();
    let slow = vec![event("x", json!({"text": "SLOW"}))];
    // A statement has two seconds. What is remembered of a log is tried in one, and then the long way in another.
    for (id, bound) in [(&id, 7), (&fresh, 4)] {
        let started = Instant::now();
        let result = append(&store, id, slow.clone()).await;
        assert!(matches!(result, Err(Error::Unavailable(_))), "{result:?}");
        let took = started.elapsed();
        assert!((2..bound).contains(&took.as_secs()), "{took:?}");
    }
    let sleeping =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
    let sleeping: i64 = sqlx::query(sleeping).fetch_one(&mut other).await.unwrap().get(0);
    assert_eq!(sleeping, 0, "nobody waits for it in secret");
    assert!(store.find_sandbox(&fresh).await.unwrap().is_none());
    assert_eq!(append(&store, &id, numbered(1)).await.unwrap()[0].as_ref().unwrap().seq, 2);
    other.execute("DROP TRIGGER slow ON events").await.unwrap();
    let stored = append(&store, &id, slow).await.unwrap();
    assert_eq!(stored[0].as_ref().unwrap().seq, 3, "it was not stored before");
    assert_chain(&log(&store, &id).await);
}

/// Somebody who locks in another order may win once; the transaction is tried again and goes through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circle_of_waiting_is_broken_and_tried_again() {
    let url = Postgres::shared().database();
    let store = open(&url).await;
    let id = SandboxId::generate();
    append(&store, &id, numbered(1)).await.unwrap();
    let mut other = second_connection(&url).await;
    // It holds the counter and then wants the log, which no transaction of a store does.
    other
        .execute("SET deadlock_timeout = '10s'; BEGIN; SELECT 1 FROM feed_counter FOR UPDATE")
        .await
        .unwrap();
    let (own, sandbox) = (Arc::clone(&store), id.clone());
    let writing = tokio::spawn(async move { append(&own, &sandbox, numbered(1)).await });
    sunaba_testkit::eventually("the store waits for the counter", async || {
        let mut third = second_connection(&url).await;
        let row = sqlx::query("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
        row.fetch_one(&mut third).await.unwrap().get::<i64, _>(0) > 0
    })
    .await;
    other.execute("SELECT 1 FROM sandbox_log FOR UPDATE; COMMIT").await.unwrap();
    assert!(writing.await.unwrap().unwrap()[0].is_ok());
    assert_eq!(store.log_head(&id).await.unwrap().last_seq, 2);
}

/// A server that keeps its connections and answers nobody: everybody is told in time, and it goes on afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_is_unavailable_in_time() {
    let server = Postgres::start();
    let store = open(&server.database()).await;
    let id = SandboxId::generate();
    append(&store, &id, numbered(1)).await.unwrap();
    server.pause();
    let started = Instant::now();
    let events = numbered(3);
    let (read, written) = tokio::join!(store.log_head(&id), append(&store, &id, events.clone()));
    assert!(matches!(read, Err(Error::Unavailable(_))), "{read:?}");
    assert!(matches!(written, Err(Error::Unavailable(_))), "{written:?}");
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    server.resume();
    sunaba_testkit::eventually("it goes on", async || append(&store, &id, events.clone()).await.is_ok())
        .await;
    let log = log(&store, &id).await;
    assert_eq!(log.len(), 4, "sent again, stored once");
    assert_chain(&log);
}
