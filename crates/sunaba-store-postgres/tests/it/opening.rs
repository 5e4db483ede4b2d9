//! What is refused at the door, and two servers that come through it at once.

use std::sync::Arc;

use sqlx::Row as _;
use sunaba_store::{Error, EventStore as _, Store as _};
use sunaba_store_postgres::{Durability, OpenError, Options, PostgresStore};
use sunaba_testkit::Postgres;
use sunaba_types::{SandboxId, SystemClock};

use crate::support::{append, numbered, open, second_connection};

/// The newest one that this program knows.
const LAYOUT: i64 = 8;

fn options(url: &str) -> Options {
    Options::new(url, Arc::new(SystemClock))
}

async fn refused_setting(options: Options) -> &'static str {
    match PostgresStore::open(options).await {
        Err(OpenError::NotDurable { setting, .. }) => setting,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_does_not_wait_for_the_disk_is_refused() {
    let server = Postgres::shared();
    let url = server.database();
    let by_address = format!("{url}?options=-c%20synchronous_commit%3Doff");
    assert_eq!(refused_setting(options(&by_address)).await, "synchronous_commit");
    let name = url.rsplit('/').next().unwrap();
    server.execute("postgres", &format!("ALTER DATABASE {name} SET synchronous_commit = off"));
    assert_eq!(refused_setting(options(&url)).await, "synchronous_commit");
    server.execute("postgres", &format!("ALTER DATABASE {name} SET synchronous_commit = local"));
    open(&url).await.check().await.unwrap();
}

/// A setting that changes under a running store is noticed by the next write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_stops_waiting_for_the_disk_is_refused() {
    let server = Postgres::start();
    let store = open(&server.database()).await;
    let id = SandboxId::generate();
    append(&store, &id, numbered(1)).await.unwrap();
    let turn = |setting: &str| {
        // The command line wins over the file, so the setting is taken from where it cannot be.
        server.execute("postgres", &format!("ALTER ROLE postgres SET synchronous_commit = {setting}"));
    };
    turn("off");
    server.execute(
        "postgres",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sunaba'",
    );
    let refused = append(&store, &id, numbered(1)).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(matches!(store.check().await, Err(Error::Unavailable(_))));
    turn("on");
    append(&store, &id, numbered(1)).await.unwrap();
    assert_eq!(store.log_head(&id).await.unwrap().last_seq, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_fsync_is_refused_unless_a_test_says_so() {
    let server = Postgres::start_with(&["fsync=off"]);
    let url = server.database();
    assert_eq!(refused_setting(options(&url)).await, "fsync");
    let store = PostgresStore::open(Options { durability: Durability::WithoutFsync, ..options(&url) });
    store.await.unwrap().check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_may_migrate_at_once() {
    let url = Postgres::shared().database();
    let opened: Vec<_> = (0..8)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { open(&url).await })
        })
        .collect();
    for store in opened {
        store.await.unwrap().check().await.unwrap();
    }
    let mut connection = second_connection(&url).await;
    let row = sqlx::query("SELECT count(*) FROM _sqlx_migrations").fetch_one(&mut connection).await.unwrap();
    assert_eq!(row.get::<i64, _>(0), LAYOUT);
}

async fn pretend_newer(url: &str, usable_from: i64) {
    let mut connection = second_connection(url).await;
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'later', true, '\\x00', 1) ON CONFLICT DO NOTHING",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    sqlx::query("UPDATE layout SET usable_from = $1")
        .bind(usable_from)
        .execute(&mut connection)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_layout_is_taken_if_it_only_added() {
    let url = Postgres::shared().database();
    drop(open(&url).await);
    pretend_newer(&url, LAYOUT).await;
    open(&url).await.check().await.unwrap();
    pretend_newer(&url, 9999).await;
    let refused = PostgresStore::open(options(&url)).await;
    assert!(matches!(refused, Err(OpenError::TooNew { needed: 9999, known: LAYOUT, .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_names_the_database_and_not_the_password() {
    let url = Postgres::shared().url("nowhere").replace("postgres@", "postgres:geheim@");
    let error = PostgresStore::open(options(&url)).await.unwrap_err();
    let told = format!("{error} {error:?} {:?}", options(&url));
    assert!(error.to_string().contains("nowhere at 127.0.0.1:"), "{error}");
    assert!(!told.contains("geheim"), "{told}");
    let wrong = PostgresStore::open(options("not an address")).await;
    assert!(matches!(wrong, Err(OpenError::Address(_))), "{wrong:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn why_a_database_cannot_be_opened_is_told_apart() {
    let server = Postgres::shared();
    let nowhere = PostgresStore::open(options(&server.url("nowhere"))).await;
    assert!(matches!(nowhere, Err(OpenError::Missing { .. })), "{nowhere:?}");
    let stranger = server.url("postgres").replace("postgres@", "stranger:geheim@");
    let denied = PostgresStore::open(options(&stranger)).await;
    assert!(matches!(&denied, Err(OpenError::Denied { user, .. }) if user == "stranger"), "{denied:?}");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let unreachable = PostgresStore::open(options(&format!("postgres://postgres@{silent}/d"))).await;
    assert!(matches!(unreachable, Err(OpenError::Unreachable { .. })), "{unreachable:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_that_may_not_make_tables_is_refused() {
    let server = Postgres::shared();
    let url = server.database();
    server.execute("postgres", "CREATE ROLE reader LOGIN");
    let refused = PostgresStore::open(options(&url.replace("postgres@", "reader@"))).await.unwrap_err();
    assert!(matches!(refused, OpenError::Migrate { .. }), "{refused:?}");
    assert!(refused.to_string().contains("must be able to make tables"), "{refused}");
}
