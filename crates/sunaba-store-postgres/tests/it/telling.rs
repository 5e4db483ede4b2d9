//! Whether commits are told: a server that is alone spares itself that.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sqlx::PgConnection;
use sqlx::postgres::PgListener;
use sunaba_store::NodeStore as _;
use sunaba_store_postgres::{Options, PostgresStore};
use sunaba_testkit::{Postgres, within};
use sunaba_types::{Clock as _, NodeId, NodeReport, SandboxId, SystemClock};

use crate::support::{append, numbered, open, second_connection};

const CHANNEL: &str = "sunaba_feed";
/// Longer than the test takes between two looks, shorter than anybody wants to wait.
const ALONE_AFTER: Duration = Duration::from_millis(700);

/// Hears everything that is told.
struct Ear {
    listener: PgListener,
    connection: PgConnection,
    /// Who is listened to.
    teller: String,
}

impl Ear {
    /// Listens to the store that tells something meanwhile.
    async fn on(url: &str, tells: impl Future) -> Self {
        let mut listener = PgListener::connect(url).await.unwrap();
        listener.listen(CHANNEL).await.unwrap();
        let connection = second_connection(url).await;
        tells.await;
        let told = within("a commit is told", Box::pin(listener.recv())).await.unwrap();
        let (_, teller) = told.payload().split_once(' ').expect("a position and who tells it");
        let teller = teller.to_owned();
        Self { listener, connection, teller }
    }

    /// How often the store has told something by now: until it hears a word that is put behind all that.
    async fn told_so_far(&mut self) -> usize {
        // Under the store's own name, which it passes over.
        let mark = format!("-1 {}", self.teller);
        sqlx::query("SELECT pg_notify($1, $2)")
            .bind(CHANNEL)
            .bind(&mark)
            .execute(&mut self.connection)
            .await
            .unwrap();
        let mut count = 0;
        loop {
            let told = within("the mark comes", Box::pin(self.listener.recv())).await.unwrap();
            if told.payload() == mark {
                return count;
            }
            count += usize::from(told.payload().ends_with(&self.teller));
        }
    }
}

fn report() -> NodeReport {
    NodeReport {
        id: NodeId::generate(),
        instance: "one".to_owned(),
        host: "here".to_owned(),
        address: String::new(),
        version: "1.2.3".to_owned(),
        roles: Vec::new(),
        providers: Vec::new(),
        max_sandboxes: 1,
        loops: json!({}),
        started_at: SystemClock.now(),
    }
}

/// Appends again and again until that is told, or is not.
async fn until_told(store: &PostgresStore, id: &SandboxId, ear: &mut Ear, wanted: bool) {
    let told = async {
        loop {
            append(store, id, numbered(1)).await.unwrap().remove(0).unwrap();
            if (ear.told_so_far().await > 0) == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(if wanted { "commits are told" } else { "commits are no longer told" }, Box::pin(told)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_has_company_tells_what_it_appends() {
    let url = Postgres::shared().database();
    let options = Options { alone_after: ALONE_AFTER, ..Options::new(url.as_str(), Arc::new(SystemClock)) };
    let store = PostgresStore::open(options).await.unwrap();
    let id = SandboxId::generate();
    // The first event makes the sandbox known; that is not the short way, and always told.
    let mut ear = Ear::on(&url, append(&store, &id, numbered(1))).await;
    append(&store, &id, numbered(1)).await.unwrap().remove(0).unwrap();
    assert_eq!(ear.told_so_far().await, 1, "somebody may be there");
    until_told(&store, &id, &mut ear, false).await;

    let (other, report) = (open(&url).await, report());
    other.enter_node(&report).await.unwrap();
    until_told(&store, &id, &mut ear, true).await;
    until_told(&store, &id, &mut ear, false).await;
    other.beat_node(&report).await.unwrap();
    until_told(&store, &id, &mut ear, true).await;
}

/// The server process at the other end of the store's listening connection.
async fn listening_backend(connection: &mut PgConnection) -> Option<i32> {
    let asked = "SELECT pid FROM pg_stat_activity
                 WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE 'LISTEN%' LIMIT 1";
    sqlx::query_scalar(asked).fetch_optional(connection).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listening_connection_that_is_dead_without_a_word_is_replaced() {
    let url = Postgres::shared().database();
    let store = open(&url).await;
    let mut connection = second_connection(&url).await;
    let found = async {
        loop {
            if let Some(pid) = listening_backend(&mut connection).await {
                return pid;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let silent = within("it listens", Box::pin(found)).await;
    // Nothing is closed and nothing is answered: as a machine that is gone, or a line that was cut.
    let stopped = Stopped::stop(silent);
    let replaced = async {
        let asked = "SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND pid <> $1 AND pid <> pg_backend_pid() AND query LIKE 'LISTEN%'";
        loop {
            let others: i64 =
                sqlx::query_scalar(asked).bind(silent).fetch_one(&mut connection).await.unwrap();
            if others > 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    within("another connection listens", Box::pin(replaced)).await;
    drop(stopped);
    drop(store);
}

/// A process that is stopped until this is dropped.
struct Stopped(i32);

impl Stopped {
    fn stop(pid: i32) -> Self {
        Self::signal(pid, "STOP");
        Self(pid)
    }

    fn signal(pid: i32, name: &str) {
        let sent = std::process::Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "process {pid} is not there");
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        Self::signal(self.0, "CONT");
    }
}
