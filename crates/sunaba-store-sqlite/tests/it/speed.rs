//! Speed beside SQLite's own, in one run on one disk.
//!
//! Prints what it measures. The bounds are below the targets of the benchmark,
//! so that a busy machine does not fail the suite and a lost index does.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use sunaba_store::{EventQuery, EventStore as _, Noise, TrajectoryDirection, TrajectoryQuery};
use sunaba_store_sqlite::SqliteStore;
use sunaba_types::SandboxId;

use crate::support::{append, event, numbered, open, second_connection};

const SLICE: Duration = Duration::from_millis(700);

/// Rows a second that SQLite itself commits in FULL transactions of 100 rows of the same content.
async fn raw(path: &Path) -> f64 {
    let mut connection = second_connection(path).await;
    for statement in [
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "CREATE TABLE IF NOT EXISTS raw (id INTEGER PRIMARY KEY, sandbox_id TEXT, seq INTEGER, event_type TEXT,
         payload TEXT, created_at INTEGER)",
        "CREATE UNIQUE INDEX IF NOT EXISTS raw_by_seq ON raw (sandbox_id, seq)",
    ] {
        sqlx::query(statement).execute(&mut connection).await.unwrap();
    }
    let id = SandboxId::generate();
    let (started, mut rows) = (Instant::now(), 0_i32);
    while started.elapsed() < SLICE {
        sqlx::query(
            "WITH RECURSIVE n (i) AS (SELECT ?2 UNION ALL SELECT i + 1 FROM n WHERE i < ?2 + 99)
             INSERT INTO raw (sandbox_id, seq, event_type, payload, created_at)
             SELECT ?1, i, 'agent.message', '{\"n\":' || i || ',\"content\":\"some words of an agent\"}', 1 FROM n",
        )
        .bind(id.as_str())
        .bind(rows)
        .execute(&mut connection)
        .await
        .unwrap();
        rows += 100;
    }
    f64::from(rows) / started.elapsed().as_secs_f64()
}

async fn batches(store: &SqliteStore) -> f64 {
    let id = SandboxId::generate();
    let (started, mut rows) = (Instant::now(), 0_i32);
    while started.elapsed() < SLICE {
        append(store, &id, numbered(100)).await.unwrap();
        rows += 100;
    }
    f64::from(rows) / started.elapsed().as_secs_f64()
}

async fn singles(store: &Arc<SqliteStore>) -> f64 {
    let started = Instant::now();
    let writers: Vec<_> = (0..64)
        .map(|_| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                let (id, mut rows) = (SandboxId::generate(), 0_i32);
                while started.elapsed() < SLICE {
                    append(&store, &id, numbered(1)).await.unwrap();
                    rows += 1;
                }
                rows
            })
        })
        .collect();
    let mut rows = 0;
    for writer in writers {
        rows += writer.await.unwrap();
    }
    f64::from(rows) / started.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ingest_keeps_up_with_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("sunaba.db")).await;
    let raw_path = directory.path().join("raw.db");
    let (mut own, mut batch, mut single) = (0.0_f64, 0.0_f64, 0.0_f64);
    // Whoever is pushed aside by other programs for a while gets more turns.
    for _ in 0..8 {
        own = own.max(raw(&raw_path).await);
        batch = batch.max(batches(&store).await);
        single = single.max(singles(&store).await);
        if batch > own * 0.1 && single > own * 0.03 {
            break;
        }
    }
    println!("rows/s: sqlite {own:.0}, batches of 100 {batch:.0}, 64 writers one at a time {single:.0}");
    assert!(batch > own * 0.1, "batches {batch:.0} of {own:.0}");
    assert!(single > own * 0.03, "singles {single:.0} of {own:.0}");
}

/// A log of many events, put in by SQL alone because only reading is measured.
async fn long_log(path: &Path, id: &SandboxId, events: i64) {
    let mut connection = second_connection(path).await;
    sqlx::query(
        "WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?2),
              t (i, name) AS (SELECT i, CASE WHEN i % 500 = 7 THEN 'rare' ELSE 'type.' || (i % 20) END FROM n)
         INSERT INTO events (sandbox_id, seq, event_id, event_type, type_seq, source, class, created_at, payload,
                             payload_hash, hash)
         SELECT ?1, i, 'e' || i, name, row_number() OVER (PARTITION BY name ORDER BY i), 'agent',
                CASE WHEN i % 5 < 3 THEN 0 ELSE i % 5 - 2 END, 1,
                '{\"n\":' || i || ',\"content\":\"some words of an agent, a few more and then the end\"}',
                zeroblob(32), zeroblob(32)
         FROM t ORDER BY i",
    )
    .bind(id.as_str())
    .bind(events)
    .execute(&mut connection)
    .await
    .unwrap();
    for statement in [
        "UPDATE sandbox_log SET last_seq = (SELECT max(seq) FROM events)",
        "INSERT INTO event_type_counts (sandbox_id, event_type, count)
         SELECT sandbox_id, event_type, count(*) FROM events WHERE event_type <> 'first' GROUP BY 1, 2",
    ] {
        sqlx::query(statement).execute(&mut connection).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deep_pages_are_as_fast_as_first_ones() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sunaba.db");
    let count: i64 =
        std::env::var("SUNABA_PAGE_EVENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let id = SandboxId::generate();
    append(&*open(&path).await, &id, vec![event("first", json!({}))]).await.unwrap();
    long_log(&path, &id, count).await;
    let store = open(&path).await;
    let deep = u64::try_from(count - 1000).unwrap();
    let some = vec!["type.1*".to_owned()];
    let rare = vec!["rare".to_owned()];
    let most = vec!["type.3".to_owned(), "type.4".to_owned()];
    let lists = [
        ("first page", vec![], vec![], 0),
        ("deep page", vec![], vec![], deep),
        ("first page of some types", some.clone(), vec![], 0),
        ("deep page of some types", some, vec![], deep / 2),
        ("page of a rare type", rare, vec![], 50),
        ("deep page without two types", vec![], most, deep * 8 / 10),
    ];
    for (name, event_types, exclude_types, offset) in lists {
        let query = EventQuery { event_types, exclude_types, offset, ..EventQuery::newest(id.clone(), 100) };
        let mut times = Vec::new();
        for _ in 0..100 {
            let started = Instant::now();
            assert_eq!(store.list_events(query.clone()).await.unwrap().events.len(), 100, "{name}");
            times.push(started.elapsed());
        }
        report(name, times);
    }
    for (name, cursor, noise) in [
        ("first trajectory page", None, Noise::Hidden),
        ("deep trajectory page", Some("e2000"), Noise::Hidden),
        ("deep trajectory page with noise", Some("e2000"), Noise::Shown),
    ] {
        let query = TrajectoryQuery {
            sandbox_id: id.clone(),
            cursor: cursor.map(str::to_owned),
            direction: TrajectoryDirection::Older,
            noise,
            limit: 100,
        };
        let mut times = Vec::new();
        for _ in 0..100 {
            let started = Instant::now();
            assert_eq!(store.trajectory(query.clone()).await.unwrap().events.len(), 100, "{name}");
            times.push(started.elapsed());
        }
        report(name, times);
    }
}

/// The median is bounded, because the slowest few say more about the machine's other work.
fn report(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!("{name}: p50 {p50:?}, p99 {p99:?}");
    assert!(p50 < Duration::from_millis(10), "{name}: p50 {p50:?}");
}
