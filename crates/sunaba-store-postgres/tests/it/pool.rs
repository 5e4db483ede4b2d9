//! How many connections a store has open.

use std::sync::Arc;

use sqlx::{PgConnection, Row as _};
use sunaba_store::{EventStore as _, RegistryStore as _, Store as _};
use sunaba_store_postgres::{Options, PostgresStore};
use sunaba_testkit::Postgres;
use sunaba_types::{SandboxId, SystemClock};
use tokio::task::JoinSet;

use crate::support::{append, numbered, second_connection};

const READERS: u32 = 3;
const WRITERS: u32 = 2;
/// One more on which it listens, and one on which the feed is read.
const MOST: i64 = (READERS + 2 + WRITERS) as i64;

/// How many connections of stores the database has.
async fn connections(watcher: &mut PgConnection) -> i64 {
    let open = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name = 'sunaba'";
    sqlx::query(open).fetch_one(watcher).await.unwrap().get(0)
}

/// Writes and reads, again and again.
async fn work(store: Arc<PostgresStore>) {
    let id = SandboxId::generate();
    for round in 1..=20 {
        assert!(append(&store, &id, numbered(2)).await.unwrap().iter().all(Result::is_ok));
        assert_eq!(store.log_head(&id).await.unwrap().last_seq, 2 * round);
        assert_eq!(store.events_after(&id, 0, 10).await.unwrap().len(), 10.min(2 * round as usize));
        assert!(store.find_sandbox(&id).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_share_the_connections_that_were_granted() {
    let url = Postgres::shared().database();
    let options = Options::new(&url, Arc::new(SystemClock));
    let store = PostgresStore::open(Options { readers: READERS, writers: WRITERS, ..options }).await.unwrap();
    let mut watcher = second_connection(&url).await;
    let mut working: JoinSet<()> = (0..64).map(|_| work(Arc::clone(&store))).collect();
    let (mut most, mut looks) = (0, 0);
    while !working.is_empty() {
        most = most.max(connections(&mut watcher).await);
        looks += 1;
        while let Some(done) = working.try_join_next() {
            done.unwrap();
        }
    }
    assert!(looks > 20, "{looks}");
    assert!((i64::from(READERS + WRITERS)..=MOST).contains(&most), "{most} of {MOST}");
    store.close().await;
}
