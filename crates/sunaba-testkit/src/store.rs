//! The store that tests run on: `SUNABA_TEST_STORE` says `sqlite` (unless told) or `postgres`.
//!
//! A folder has one database, whichever store it is: whoever opens the same folder again finds what was there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use sunaba_store::Store;
use sunaba_store_postgres::PostgresStore;
use sunaba_store_sqlite::SqliteStore;
use sunaba_types::{Clock, SystemClock};

use crate::postgres::{PORT, Postgres};

/// Where a folder's database is noted.
const NOTE: &str = "test-database";

/// Which store tests run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestStore {
    /// A file in the test's folder.
    Sqlite,
    /// A database of its own on a throwaway PostgreSQL, which is as durable as a real one.
    Postgres,
}

impl TestStore {
    /// What `SUNABA_TEST_STORE` says.
    pub fn wanted() -> Self {
        match std::env::var("SUNABA_TEST_STORE").as_deref() {
            Err(_) | Ok("" | "sqlite") => Self::Sqlite,
            Ok("postgres") => Self::Postgres,
            Ok(other) => panic!("SUNABA_TEST_STORE is {other:?}; it may be sqlite or postgres"),
        }
    }
}

/// Opens the store of a folder.
pub async fn open_store(dir: &Path, clock: Arc<dyn Clock>) -> Arc<dyn Store> {
    match TestStore::wanted() {
        TestStore::Sqlite => {
            let options = sunaba_store_sqlite::Options::new(sqlite_file(dir), clock);
            SqliteStore::open(options).await.expect("the store opens")
        }
        TestStore::Postgres => {
            let options = sunaba_store_postgres::Options::new(postgres_url(dir), clock);
            PostgresStore::open(options).await.expect("the store opens")
        }
    }
}

/// What a program is started with to use the store of a folder, its data directory.
pub fn store_environment(dir: &Path) -> Vec<(&'static str, String)> {
    match TestStore::wanted() {
        TestStore::Sqlite => Vec::new(),
        TestStore::Postgres => vec![
            ("DATABASE_URL", postgres_url(dir)),
            ("SUNABA_SECRET_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".to_owned()),
        ],
    }
}

/// Changes one row of a folder's store behind its back, as somebody with the database would.
pub fn change_row(dir: &Path, sql: &str) {
    match TestStore::wanted() {
        TestStore::Sqlite => {
            let program = "import sqlite3, sys; held = sqlite3.connect(sys.argv[1], timeout=10); \
                changed = held.execute(sys.argv[2]); held.commit(); sys.exit(changed.rowcount != 1)";
            let mut python = Command::new("python3");
            let status = python.args(["-c", program]).arg(sqlite_file(dir)).arg(sql).status();
            assert!(status.expect("python3 is there").success(), "one row is changed: {sql}");
        }
        TestStore::Postgres => {
            let url = postgres_url(dir);
            assert_eq!(Postgres::shared().execute(database_name(&url), sql), "UPDATE 1", "{sql}");
        }
    }
}

pub(crate) fn sqlite_file(dir: &Path) -> PathBuf {
    dir.join("sunaba.db")
}

fn database_name(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

/// Lets a test program that is started find the folders' stores.
pub fn share_store(command: &mut Command) {
    if TestStore::wanted() == TestStore::Postgres {
        command.env(PORT, Postgres::shared().port().to_string());
    }
}

/// The database of a folder, made at its first use. Other processes find its address in the folder.
pub(crate) fn postgres_url(dir: &Path) -> String {
    static MADE: OnceLock<Mutex<HashMap<PathBuf, String>>> = OnceLock::new();
    let made = MADE.get_or_init(Mutex::default);
    let known = || made.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known().get(dir).cloned();
    found.unwrap_or_else(|| {
        // Outside of the lock: it takes a tenth of a second, and a folder is used by one test.
        let note = dir.join(NOTE);
        let url = std::fs::read_to_string(&note).unwrap_or_else(|_| {
            let url = Postgres::shared().database_like(filled());
            // A folder that is not there yet is used by this process alone.
            let _ = std::fs::write(&note, &url);
            url
        });
        known().entry(dir.to_owned()).or_insert(url).clone()
    })
}

/// A database with all tables in it and no row: to copy it is several times quicker than to migrate.
fn filled() -> &'static str {
    static FILLED: OnceLock<String> = OnceLock::new();
    FILLED.get_or_init(|| {
        let url = Postgres::shared().database();
        let name = database_name(&url).to_owned();
        // On a thread of its own: the caller may be in a runtime already.
        let filling = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let options = sunaba_store_postgres::Options::new(url, Arc::new(SystemClock));
                PostgresStore::open(options).await.expect("an empty database").close().await;
            });
        });
        filling.join().expect("the tables are made");
        name
    })
}
