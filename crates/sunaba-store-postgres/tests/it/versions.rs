//! Programs of two versions on one database: the layout of the newer one has more in it, or less.

use std::sync::{Arc, OnceLock};

use sqlx::{Connection as _, PgConnection, Row as _};
use sunaba_store::conformance::World;
use sunaba_store::{Error, Store as _};
use sunaba_store_postgres::{Options, PostgresStore};
use sunaba_testkit::{Postgres, eventually, within};
use sunaba_types::SandboxId;

use crate::support::{append, numbered, open, second_connection};

/// Everything that a newer program could add, all at once: each table gets a column of its own and one by the name
/// of every column that any other table has, so that a query which does not say whose column it means, or takes
/// all there are, is found out. Then a table and an index.
const EXPAND: &str = "
    DO $$
    DECLARE
        addition record;
    BEGIN
        FOR addition IN
            SELECT t.table_name, n.column_name
            FROM information_schema.tables AS t
            CROSS JOIN (SELECT DISTINCT c.column_name::text FROM information_schema.columns AS c
                        WHERE c.table_schema = 'public' AND c.table_name <> '_sqlx_migrations'
                        UNION VALUES ('added_later')) AS n (column_name)
            WHERE t.table_schema = 'public' AND t.table_name <> '_sqlx_migrations'
              AND t.table_type = 'BASE TABLE' AND NOT EXISTS (SELECT 1 FROM information_schema.columns AS c
                              WHERE c.table_schema = 'public' AND c.table_name = t.table_name
                                AND c.column_name = n.column_name)
        LOOP
            EXECUTE format('ALTER TABLE %I ADD COLUMN %I text NOT NULL DEFAULT %L',
                           addition.table_name, addition.column_name, 'of a newer program');
        END LOOP;
    END $$;
    CREATE TABLE made_later (id bigint PRIMARY KEY, event_id text);
    CREATE INDEX events_by_later ON events (added_later, sandbox_id);";

/// The name of a database that a newer program has expanded and nobody uses.
async fn expanded() -> &'static str {
    static MADE: OnceLock<String> = OnceLock::new();
    static MAKING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let _alone = MAKING.lock().await;
    if let Some(name) = MADE.get() {
        return name;
    }
    let url = Postgres::shared().database();
    open(&url).await.close().await;
    let mut connection = second_connection(&url).await;
    sqlx::raw_sql(EXPAND).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    MADE.get_or_init(|| url.rsplit('/').next().unwrap().to_owned())
}

/// A fresh store on a layout that has more in it than this program knows.
async fn fresh_on_more() -> World {
    let clock = World::clock();
    let url = Postgres::shared().database_like(expanded().await);
    let options = Options::new(url, Arc::clone(&clock) as _);
    World::new(PostgresStore::open(options).await.unwrap(), clock, ())
}

/// The cases that between them ask what is put together when it is asked, and where tables meet.
mod on_a_layout_with_more {
    sunaba_store::conformance! { @each super::super::fresh_on_more;
        log: stores_a_retried_event_once, chains_events, counts_heartbeats;
        pages:
            filters_by_type, excludes_types, pages_by_offset_with_filters, finds_text,
            walks_the_trajectory_both_ways, hides_results_of_noisy_calls, outlines_turns;
        feed: publishes_in_order_without_loss;
        messages: offers_again_until_acknowledged, marks_consumed_by_content;
        registry: lists_what_may_be_seen, claims_a_task_once, retries_with_a_higher_attempt;
        spending: caps_a_task_over_its_attempts, sums_calls;
        nodes:
            knows_nodes, claims_a_sandbox_once, gives_up_only_the_silent, replaces_what_was_lost, keeps_one_home;
        keeping: keeps_tokens_by_hash, knows_blob_owners;
        whole: reads_one_moment;
    }
}

/// Every query that is known when the program is built.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_query_can_be_asked_on_a_layout_with_more() {
    let url = Postgres::shared().database_like(expanded().await);
    crate::offline_data::assert_fits(&mut second_connection(&url).await).await;
}

/// Records a migration as the migrator of a newer program does.
async fn record_newer(connection: &mut PgConnection) {
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'later', true, '\\x00', 1)",
    )
    .execute(connection)
    .await
    .unwrap();
}

async fn count(connection: &mut PgConnection, of: &'static str) -> i64 {
    sqlx::query(of).fetch_one(connection).await.unwrap().get(0)
}

const EVENTS: &str = "SELECT count(*) FROM events";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_once_a_newer_program_has_taken_something_away() {
    let url = Postgres::shared().database();
    let (store, id) = (open(&url).await, SandboxId::generate());
    append(&store, &id, numbered(1)).await.unwrap();
    let mut newer = second_connection(&url).await;
    record_newer(&mut newer).await;
    append(&store, &id, numbered(1)).await.expect("something was only added");

    sqlx::query("UPDATE layout SET usable_from = 9999").execute(&mut newer).await.unwrap();
    let refused = append(&store, &id, numbered(1)).await.unwrap_err();
    let outdated = refused.outdated().expect("it says that it is too old");
    assert!(outdated.needed == 9999 && outdated.known < 9999, "{outdated:?}");
    assert!(matches!(refused, Error::Unavailable(_)), "whoever sent it keeps it for the newer program");
    assert!(store.check().await.unwrap_err().outdated().is_some());
    assert_eq!(count(&mut newer, EVENTS).await, 2);
}

/// What comes while the newer program's migration works waits for it, and is refused then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_takes_away_comes_between_two_transactions() {
    let url = Postgres::shared().database();
    let (store, id) = (open(&url).await, SandboxId::generate());
    append(&store, &id, numbered(1)).await.unwrap();
    let mut newer = second_connection(&url).await;
    let mut migration = newer.begin().await.unwrap();
    sqlx::query("LOCK TABLE layout").execute(&mut *migration).await.unwrap();
    let appending = tokio::spawn({
        let (store, id) = (Arc::clone(&store), id.clone());
        async move { append(&store, &id, numbered(1)).await }
    });
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'layout'::regclass";
    eventually("the write waits", || async { count(&mut second_connection(&url).await, waiting).await > 0 })
        .await;
    sqlx::query("UPDATE layout SET usable_from = 9999").execute(&mut *migration).await.unwrap();
    migration.commit().await.unwrap();
    let refused = within("the answer", appending).await.unwrap();
    assert!(refused.unwrap_err().outdated().is_some());
    assert_eq!(count(&mut newer, EVENTS).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_would_leave_out_something_newer_is_refused() {
    let url = Postgres::shared().database();
    let store = open(&url).await;
    drop(store.read_whole().await.unwrap());
    record_newer(&mut second_connection(&url).await).await;
    let refused = store.read_whole().await.err().expect("it is refused");
    assert!(matches!(refused, Error::Conflict { code: "newer_layout", .. }), "{refused:?}");
}

/// As after a standby took over that had not come so far, or an older copy was put back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_refused_because_the_layout_is_older_than_the_program() {
    let url = Postgres::shared().database();
    let store = open(&url).await;
    let id = SandboxId::generate();
    append(&store, &id, numbered(1)).await.unwrap().remove(0).unwrap();
    let mut connection = second_connection(&url).await;
    sqlx::raw_sql("DROP TYPE written_event CASCADE").execute(&mut connection).await.unwrap();
    for _ in 0..2 {
        let answer = append(&store, &id, numbered(2)).await;
        assert!(matches!(answer, Err(Error::Unavailable(_))), "they are sent again later: {answer:?}");
    }
}
