//! Everything moved from one kind of store to the other, and what must not pass.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;
use sunaba_store::conformance::{World, whole};
use sunaba_store::transfer::{self, Reached, Row, Source, TABLES, Table, copy, copy_and_verify};
use sunaba_store::{Error, Result, Store};
use sunaba_store_postgres::{OpenError, Options, PostgresStore, Target};
use sunaba_store_sqlite::SqliteStore;
use sunaba_testkit::Postgres;
use sunaba_types::SystemClock;

use crate::support::{fresh, open, second_connection};

/// A filled SQLite store and its directory.
async fn filled() -> (World, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let clock = World::clock();
    let options =
        sunaba_store_sqlite::Options::new(directory.path().join("sunaba.db"), Arc::clone(&clock) as _);
    let world = World::new(SqliteStore::open(options).await.unwrap(), clock, ());
    whole::fill(&world).await;
    (world, directory)
}

fn options(url: &str) -> Options {
    Options::new(url, Arc::new(SystemClock))
}

async fn source(world: &World) -> Box<dyn Source> {
    world.store.read_whole().await.unwrap()
}

async fn target(url: &str) -> Target {
    Target::connect(options(url)).await.unwrap()
}

/// Changes the SQLite file behind the store's back.
async fn tamper(directory: &Path, sql: &'static str) {
    let file = SqliteConnectOptions::new().filename(directory.join("sunaba.db"));
    let mut connection = file.connect().await.unwrap();
    assert_eq!(sqlx::query(sql).execute(&mut connection).await.unwrap().rows_affected(), 1);
}

/// A target that breaks off after so many batches.
struct Breaking<'a> {
    target: &'a mut Target,
    left: usize,
}

#[async_trait]
impl transfer::Target for Breaking<'_> {
    async fn begin(&mut self, source: &str) -> Result<Option<Reached>> {
        self.target.begin(source).await
    }

    async fn write(&mut self, table: &'static Table, rows: Vec<Row>) -> Result<()> {
        if self.left == 0 {
            return Err(Error::Unavailable("broken off".into()));
        }
        self.left -= 1;
        self.target.write(table, rows).await
    }

    async fn settle(&mut self, feed_head: i64) -> Result<()> {
        self.target.settle(feed_head).await
    }

    async fn open(&mut self) -> Result<Arc<dyn Store>> {
        self.target.open().await
    }

    async fn finish(&mut self) -> Result<()> {
        self.target.finish().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_moves_to_postgres_and_goes_on_there() {
    let (world, _directory) = filled().await;
    let url = Postgres::shared().database();
    let (mut from, mut steps) = (source(&world).await, Vec::new());
    let told = &mut |step: transfer::Step| steps.push((step.table.name, step.rows, step.of));
    let verified = copy_and_verify(&mut *from, &mut target(&url).await, told).await.unwrap();
    assert_eq!(verified.sandboxes, 10);
    let events = verified.tables.iter().find(|sum| sum.table.name == "events").unwrap().rows;
    assert!(verified.events == events && events > 2500, "{events}");
    for table in &TABLES {
        let last = steps.iter().rfind(|(name, ..)| *name == table.name).unwrap();
        assert_eq!(last.1, last.2, "{} was told to its end", table.name);
    }

    let clock = World::clock();
    let moved = PostgresStore::open(Options::new(&url, Arc::clone(&clock) as _)).await.unwrap();
    assert_eq!(whole::told(&*moved).await, whole::told(&*world.store).await);
    whole::goes_on(&World::new(moved, clock, ())).await;
    let mut connection = second_connection(&url).await;
    let counts: (i64, i64) = sqlx::query_as("SELECT max(type_count), max(noisy_count) FROM sandbox_log")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(counts, (6, 1), "what bounds types and searches is right");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_moves_back_to_sqlite() {
    let world = fresh().await;
    whole::fill(&world).await;
    let directory = tempfile::tempdir().unwrap();
    let clock = World::clock();
    let file = sunaba_store_sqlite::Options::new(directory.path().join("new.db"), Arc::clone(&clock) as _);
    let mut to = sunaba_store_sqlite::Target::connect(file.clone()).await.unwrap();
    copy_and_verify(&mut *source(&world).await, &mut to, &mut |_| ()).await.unwrap();
    let moved = SqliteStore::open(file).await.unwrap();
    assert_eq!(whole::told(&*moved).await, whole::told(&*world.store).await);
    whole::goes_on(&World::new(moved, clock, directory)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_broke_off_goes_on_where_it_was_and_no_server_opens_it_meanwhile() {
    let (world, _directory) = filled().await;
    let url = Postgres::shared().database();
    let mut written = 0;
    for left in [0, 3, 1, 9, 2] {
        let mut to = target(&url).await;
        let (mut from, mut to) = (source(&world).await, Breaking { target: &mut to, left });
        let broken = copy(&mut *from, &mut to, &mut |_| written += 1).await;
        assert!(matches!(broken, Err(Error::Unavailable(_))), "{broken:?}");
        let refused = PostgresStore::open(options(&url)).await.unwrap_err();
        assert!(matches!(refused, OpenError::Unfinished { .. }), "{refused}");
        assert!(refused.to_string().contains("is not finished"), "{refused}");
    }
    assert_eq!(written, 15);
    let told = &mut |_| written += 1;
    copy_and_verify(&mut *source(&world).await, &mut target(&url).await, told).await.unwrap();
    let moved = open(&url).await;
    assert_eq!(whole::told(&*moved).await, whole::told(&*world.store).await);
    // Nothing was written twice: a whole move in one go takes as many batches.
    let (again, mut batches) = (Postgres::shared().database(), 0);
    copy(&mut *source(&world).await, &mut target(&again).await, &mut |_| batches += 1).await.unwrap();
    assert!(written < batches + 10, "{written} {batches}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_changed_meanwhile_does_not_go_on() {
    let (world, directory) = filled().await;
    let url = Postgres::shared().database();
    let mut to = target(&url).await;
    let broken =
        copy(&mut *source(&world).await, &mut Breaking { target: &mut to, left: 5 }, &mut |_| ()).await;
    broken.unwrap_err();
    drop(to);
    tamper(directory.path(), "UPDATE nodes SET beat_at = beat_at + 1").await;
    let refused = copy(&mut *source(&world).await, &mut target(&url).await, &mut |_| ()).await;
    assert!(matches!(refused, Err(Error::Conflict { code: "other_move", .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_was_tampered_with_is_found_and_the_target_stays_marked() {
    let (world, directory) = filled().await;
    tamper(
        directory.path(),
        "UPDATE events SET payload = '{\"n\":-1}' WHERE event_type = 'agent.message' AND type_seq = 2000",
    )
    .await;
    let url = Postgres::shared().database();
    let found = copy_and_verify(&mut *source(&world).await, &mut target(&url).await, &mut |_| ()).await;
    let Err(Error::Conflict { code: "not_as_it_was", detail }) = found else { panic!("{found:?}") };
    assert!(detail.contains("is not as it was written"), "{detail}");
    assert!(matches!(PostgresStore::open(options(&url)).await, Err(OpenError::Unfinished { .. })));
}

/// What verifies is not the copying: a row that is lost or changed in the target is found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_not_the_same_is_found() {
    let (world, _directory) = filled().await;
    for (sql, said) in [
        ("DELETE FROM messages WHERE content = 'waits'", "messages has"),
        ("UPDATE tasks SET title = 'another' WHERE id = (SELECT min(id) FROM tasks)", "tasks has rows"),
        ("UPDATE feed_counter SET position = 1", "the feed ends at 1"),
    ] {
        let url = Postgres::shared().database();
        let (mut from, mut to) = (source(&world).await, target(&url).await);
        copy(&mut *from, &mut to, &mut |_| ()).await.unwrap();
        sqlx::query(sql).execute(&mut second_connection(&url).await).await.unwrap();
        let store = transfer::Target::open(&mut to).await.unwrap();
        let found = transfer::verify(&mut *from, &*store).await.unwrap_err().to_string();
        assert!(found.contains(said), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_not_empty_is_refused_and_left_alone() {
    let (world, _directory) = filled().await;
    let url = Postgres::shared().database();
    open(&url).await.set_setting_once("held", "by somebody").await.unwrap();
    let refused = copy(&mut *source(&world).await, &mut target(&url).await, &mut |_| ()).await;
    assert!(matches!(refused, Err(Error::Conflict { code: "target_not_empty", .. })), "{refused:?}");
    assert_eq!(open(&url).await.find_setting("held").await.unwrap().as_deref(), Some("by somebody"));

    let two = Postgres::shared().database();
    let (mut first, mut second) = (target(&two).await, target(&two).await);
    transfer::Target::begin(&mut first, "a").await.unwrap();
    let refused = transfer::Target::begin(&mut second, "a").await;
    assert!(matches!(refused, Err(Error::Conflict { code: "other_move", .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_that_postgres_cannot_keep_is_named() {
    let (world, directory) = filled().await;
    tamper(directory.path(), "UPDATE messages SET content = 'a' || char(0) WHERE content = 'waits'").await;
    let url = Postgres::shared().database();
    let refused = copy(&mut *source(&world).await, &mut target(&url).await, &mut |_| ()).await.unwrap_err();
    assert!(refused.to_string().contains("messages.content"), "{refused}");
}

/// A migration that adds something has to tell the transfer of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_transfer_knows_the_whole_layout() {
    let url = Postgres::shared().database();
    drop(open(&url).await);
    let layout: Vec<(String, String)> = sqlx::query_as(
        "SELECT table_name::text, column_name::text FROM information_schema.columns
         WHERE table_schema = 'public'
           AND table_name NOT IN ('layout', '_sqlx_migrations', 'feed_counter', 'event_types', 'closed_turns')",
    )
    .fetch_all(&mut second_connection(&url).await)
    .await
    .unwrap();
    // Types and turns are read from views, of which the open turn is a part.
    let derived =
        [("sandbox_log", "type_count"), ("sandbox_log", "noisy_count"), ("sandbox_log", "open_turn")];
    assert_eq!(whole::unknown_columns(&layout, &derived), Vec::<String>::new());
}
