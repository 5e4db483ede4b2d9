//! Speed beside PostgreSQL's own, in one run on one disk.
//!
//! Prints what it measures. The bounds are below the targets of the benchmark,
//! so that a busy machine does not fail the suite and a lost index does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::Executor as _;
use sunaba_store::{EventQuery, EventStore as _, Noise, TrajectoryDirection, TrajectoryQuery};
use sunaba_store_postgres::{Options, PostgresStore};
use sunaba_testkit::Postgres;
use sunaba_types::{SandboxId, SystemClock};

use crate::support::{append, event, open, second_connection};

const SLICE: Duration = Duration::from_millis(1500);

/// Rows a second that PostgreSQL itself commits in transactions of 100 rows of the same content, by 4 clients.
async fn raw(url: &str) -> f64 {
    let mut connection = second_connection(url).await;
    let table = "CREATE TABLE IF NOT EXISTS raw (sandbox_id text, seq bigint, event_type text, payload text,
                 created_at bigint, PRIMARY KEY (sandbox_id, seq))";
    connection.execute(table).await.unwrap();
    let started = Instant::now();
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let url = url.to_owned();
            tokio::spawn(async move {
                let mut connection = second_connection(&url).await;
                let (id, mut rows) = (SandboxId::generate(), 0_i64);
                while started.elapsed() < SLICE {
                    sqlx::query(
                        "INSERT INTO raw SELECT $1, i, 'agent.message',
                                '{\"n\":' || i || ',\"content\":\"some words of an agent\"}', 1
                         FROM generate_series($2::bigint, $2::bigint + 99) AS i",
                    )
                    .bind(id.as_str())
                    .bind(rows)
                    .execute(&mut connection)
                    .await
                    .unwrap();
                    rows += 100;
                }
                rows
            })
        })
        .collect();
    total(clients).await / started.elapsed().as_secs_f64()
}

/// Events a second of 64 writers, each with a sandbox of its own.
async fn ingest(store: &Arc<PostgresStore>, batch: usize) -> f64 {
    let started = Instant::now();
    let writers: Vec<_> = (0..64)
        .map(|_| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                let (id, mut rows) = (SandboxId::generate(), 0_i64);
                while started.elapsed() < SLICE {
                    let events = crate::support::numbered(batch);
                    assert!(append(&store, &id, events).await.unwrap().iter().all(Result::is_ok));
                    rows += i64::try_from(batch).unwrap();
                }
                rows
            })
        })
        .collect();
    total(writers).await / started.elapsed().as_secs_f64()
}

async fn total(tasks: Vec<tokio::task::JoinHandle<i64>>) -> f64 {
    let mut rows = 0;
    for task in tasks {
        rows += task.await.unwrap();
    }
    f64::from(i32::try_from(rows).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ingest_keeps_up_with_postgresql() {
    let url = Postgres::shared().database();
    let mut options = Options::new(url.as_str(), Arc::new(SystemClock));
    if let Some(writers) = std::env::var("SUNABA_WRITERS").ok().and_then(|text| text.parse().ok()) {
        options.writers = writers;
    }
    let store = PostgresStore::open(options).await.unwrap();
    let (mut own, mut batch, mut single) = (0.0_f64, 0.0_f64, 0.0_f64);
    for _ in 0..2 {
        own = own.max(raw(&url).await);
        batch = batch.max(ingest(&store, 100).await);
        single = single.max(ingest(&store, 1).await);
    }
    println!(
        "rows/s: postgresql {own:.0}, 64 writers in batches of 100 {batch:.0}, one at a time {single:.0}"
    );
    assert!(batch > own * 0.05, "batches {batch:.0} of {own:.0}");
    assert!(single > own * 0.01, "singles {single:.0} of {own:.0}");
}

/// A log of many events, put in by SQL alone because only reading is measured.
async fn long_log(url: &str, id: &SandboxId, events: i64) {
    let mut connection = second_connection(url).await;
    sqlx::query(
        "INSERT INTO events (sandbox_id, seq, event_id, event_type, type_seq, source, class, created_at, payload,
                             payload_hash, hash)
         SELECT $1, i, 'e' || i, name, row_number() OVER (PARTITION BY name ORDER BY i), 'agent',
                CASE WHEN i % 5 < 3 THEN 0 ELSE i % 5 - 2 END, 1,
                convert_to('{\"n\":' || i || ',\"content\":\"some words of an agent, a few more\"}', 'UTF8'),
                decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex')
         FROM (SELECT i, CASE WHEN i % 500 = 7 THEN 'rare' ELSE 'type.' || (i % 20) END AS name
               FROM generate_series(2, $2::bigint) AS i) AS t ORDER BY i",
    )
    .bind(id.as_str())
    .bind(events)
    .execute(&mut connection)
    .await
    .unwrap();
    sqlx::query("UPDATE sandbox_log SET last_seq = $2 WHERE sandbox_id = $1")
        .bind(id.as_str())
        .bind(events)
        .execute(&mut connection)
        .await
        .unwrap();
    sqlx::query(
        "INSERT INTO event_types SELECT DISTINCT sandbox_id, event_type FROM events
         WHERE sandbox_id = $1 AND event_type <> 'first'",
    )
    .bind(id.as_str())
    .execute(&mut connection)
    .await
    .unwrap();
}

/// The median and the slowest of some runs.
async fn timed<F: Future>(runs: usize, mut once: impl FnMut() -> F) -> (Duration, Duration) {
    let mut took = Vec::new();
    for _ in 0..runs {
        let started = Instant::now();
        once().await;
        took.push(started.elapsed());
    }
    took.sort_unstable();
    (took[runs / 2], took[runs - 1])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deep_pages_of_a_long_log_cost_what_the_first_costs() {
    let events: i64 =
        std::env::var("SUNABA_LONG_LOG").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let url = Postgres::shared().database();
    let store = open(&url).await;
    let id = SandboxId::generate();
    append(&store, &id, vec![event("first", json!({}))]).await.unwrap();
    long_log(&url, &id, events).await;
    let newest = EventQuery::newest(id.clone(), 100);
    let some = vec!["type.3".to_owned(), "rare".to_owned()];
    let deep = u64::try_from(events * 9 / 10).unwrap();
    for (what, query) in [
        ("first", newest.clone()),
        ("deep by cursor", EventQuery { before_seq: Some(events / 10), ..newest.clone() }),
        ("deep by offset", EventQuery { offset: deep, ..newest.clone() }),
        ("some types", EventQuery { event_types: some.clone(), ..newest.clone() }),
        ("some types, deep", EventQuery { event_types: some, offset: deep / 25, ..newest.clone() }),
        ("a rare type", EventQuery { event_types: vec!["rare".to_owned()], offset: 50, ..newest.clone() }),
    ] {
        let (median, worst) = timed(30, || async {
            assert_eq!(store.list_events(query.clone()).await.unwrap().events.len(), 100, "{what}");
        })
        .await;
        println!("{events} events, {what}: median {median:?}, worst {worst:?}");
        assert!(median < Duration::from_millis(50), "{what} took {median:?}");
    }
    for (what, cursor) in [("newest", None), ("deep", Some(format!("e{}", events / 10)))] {
        let query = TrajectoryQuery {
            sandbox_id: id.clone(),
            cursor,
            direction: TrajectoryDirection::Older,
            noise: Noise::Shown,
            limit: 100,
        };
        let (median, worst) = timed(30, || async {
            assert_eq!(store.trajectory(query.clone()).await.unwrap().events.len(), 100, "{what}");
        })
        .await;
        println!("{events} events, trajectory {what}: median {median:?}, worst {worst:?}");
        assert!(median < Duration::from_millis(50), "trajectory {what} took {median:?}");
    }
}
