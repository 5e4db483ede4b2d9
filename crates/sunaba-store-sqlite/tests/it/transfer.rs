//! What a move into a file must not do. Moves between the kinds are tried beside PostgreSQL.

use std::sync::Arc;

use sunaba_store::conformance::whole;
use sunaba_store::transfer::{Target as _, copy};
use sunaba_store::{Error, Store as _};
use sunaba_store_sqlite::{OpenError, Options, SqliteStore, Target};
use sunaba_types::SystemClock;

use crate::support::{fresh, open, second_connection};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_with_something_in_it_is_refused_and_an_unfinished_one_is_not_opened() {
    let world = fresh().await;
    whole::fill(&world).await;
    let mut from = world.store.read_whole().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let options = Options::new(directory.path().join("held.db"), Arc::new(SystemClock));
    open(&options.path).await.set_setting_once("held", "by somebody").await.unwrap();
    let refused = copy(&mut *from, &mut Target::connect(options).await.unwrap(), &mut |_| ()).await;
    assert!(matches!(refused, Err(Error::Conflict { code: "target_not_empty", .. })), "{refused:?}");

    let options = Options::new(directory.path().join("begun.db"), Arc::new(SystemClock));
    let mut begun = Target::connect(options.clone()).await.unwrap();
    assert_eq!(begun.begin("a source").await.unwrap(), None);
    let refused = SqliteStore::open(options.clone()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Unfinished { .. }), "{refused}");
    let other = copy(&mut *from, &mut begun, &mut |_| ()).await;
    assert!(matches!(other, Err(Error::Conflict { code: "other_move", .. })), "{other:?}");
    begun.finish().await.unwrap();
    SqliteStore::open(options).await.unwrap();
}

/// A migration that adds something has to tell the transfer of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_transfer_knows_the_whole_layout() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sunaba.db");
    drop(open(&path).await);
    let layout: Vec<(String, String)> = sqlx::query_as(
        "SELECT t.name, c.name FROM sqlite_master AS t, pragma_table_info(t.name) AS c
         WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'
           AND t.name NOT IN ('_sqlx_migrations', 'feed_counter')",
    )
    .fetch_all(&mut second_connection(&path).await)
    .await
    .unwrap();
    assert_eq!(whole::unknown_columns(&layout, &[("events", "id")]), Vec::<String>::new());
}
