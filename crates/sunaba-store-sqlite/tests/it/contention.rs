//! Many writers, page readers, checkpoints and a second process: nobody is told that the store is busy.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sqlx::Row as _;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, SqliteConnection};
use sunaba_store::{EventQuery, EventStore as _, Noise, TrajectoryDirection, TrajectoryQuery};
use sunaba_store_sqlite::SqliteStore;
use sunaba_types::SandboxId;

use crate::support::{append, numbered, open, second_connection};

const READER_PATH: &str = "SUNABA_TEST_READER_PATH";

fn budget() -> Duration {
    let seconds = std::env::var("SUNABA_BUSY_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(5))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_told_busy() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sunaba.db");
    let store = open(&path).await;
    let ids: Arc<Vec<SandboxId>> = Arc::new((0..16).map(|_| SandboxId::generate()).collect());
    for id in ids.iter() {
        append(&store, id, numbered(50)).await.unwrap();
    }
    let until = Instant::now() + budget();
    let mut reader = second_process(&path);
    let written = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..64)
        .map(|n| tokio::spawn(write(Arc::clone(&store), ids[n % 16].clone(), until, Arc::clone(&written))))
        .collect();
    let readers: Vec<_> =
        (0..8).map(|n| tokio::spawn(read(Arc::clone(&store), ids[n].clone(), until))).collect();
    let checkpoints = checkpoint(second_connection(&path).await, until).await;
    for writer in writers {
        writer.await.unwrap();
    }
    let mut pages = 0;
    for reader in readers {
        pages += reader.await.unwrap();
    }
    std::fs::write(stop_file(&path), "").unwrap();
    assert!(reader.0.wait().unwrap().success(), "the second process read without an error");
    let log_bytes = std::fs::metadata(path.with_extension("db-wal")).unwrap().len();
    assert!(log_bytes < 128 * 1024 * 1024, "the write-ahead log grew to {log_bytes} bytes");
    let written = written.load(Ordering::Relaxed);
    println!(
        "{written} events, {pages} pages, {checkpoints} checkpoints, a log of {log_bytes} bytes in {:?}",
        budget()
    );
    assert!(written > 0 && pages > 0 && checkpoints > 0);
    let stored = stored_events(&store, &ids).await;
    assert_eq!(u64::try_from(stored).unwrap(), written + 16 * 50);
}

async fn stored_events(store: &SqliteStore, ids: &[SandboxId]) -> i64 {
    let mut total = 0;
    for id in ids {
        total += store.log_head(id).await.unwrap().last_seq;
    }
    total
}

async fn write(store: Arc<SqliteStore>, id: SandboxId, until: Instant, written: Arc<AtomicU64>) {
    while Instant::now() < until {
        let outcomes = append(&store, &id, numbered(3)).await.unwrap();
        assert!(outcomes.iter().all(Result::is_ok));
        written.fetch_add(3, Ordering::Relaxed);
    }
}

async fn read(store: Arc<SqliteStore>, id: SandboxId, until: Instant) -> u64 {
    let mut pages = 0;
    while Instant::now() < until {
        let query = EventQuery { offset: pages % 40, ..EventQuery::newest(id.clone(), 50) };
        assert!(!store.list_events(query).await.unwrap().events.is_empty());
        let story = TrajectoryQuery {
            sandbox_id: id.clone(),
            cursor: None,
            direction: TrajectoryDirection::Older,
            noise: Noise::Hidden,
            limit: 50,
        };
        assert_eq!(store.trajectory(story).await.unwrap().events.len(), 50);
        pages += 2;
    }
    pages
}

/// Checkpoints from outside; one that cannot finish says so in its answer and is no error.
async fn checkpoint(mut connection: SqliteConnection, until: Instant) -> u64 {
    let mut finished = 0;
    let mut pace = tokio::time::interval(Duration::from_millis(50));
    while Instant::now() < until {
        let row = sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").fetch_one(&mut connection).await.unwrap();
        finished += u64::from(row.get::<i64, _>(0) == 0);
        pace.tick().await;
    }
    finished
}

fn stop_file(path: &Path) -> PathBuf {
    path.with_extension("stop")
}

/// This very test program again, as a reader of the same file.
fn second_process(path: &Path) -> SecondProcess {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "contention::second_process_reads", "--nocapture"])
        .env(READER_PATH, path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    SecondProcess(child)
}

/// Does not outlive a test that fails.
struct SecondProcess(Child);

impl Drop for SecondProcess {
    fn drop(&mut self) {
        // It has ended already when the test passed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Does its work only in the second process that `nobody_is_told_busy` starts.
#[tokio::test]
async fn second_process_reads() {
    let Some(path) = std::env::var_os(READER_PATH).map(PathBuf::from) else { return };
    let options = SqliteConnectOptions::new().filename(&path).read_only(true).disable_statement_logging();
    let mut connection = options.connect().await.unwrap();
    let deadline = Instant::now() + budget() + Duration::from_secs(60);
    let mut last = 0;
    while !stop_file(&path).exists() {
        assert!(Instant::now() < deadline, "the first process did not say stop");
        let row = sqlx::query("SELECT count(*), coalesce(max(position), 0) FROM feed")
            .fetch_one(&mut connection)
            .await
            .unwrap();
        let (count, position): (i64, i64) = (row.get(0), row.get(1));
        assert!(position >= last && count == position, "a consistent picture");
        last = position;
    }
}
