//! Somebody else in the middle of a write.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::store::{TestStore, postgres_url, sqlite_file};

/// Takes the only place for a writer.
const SQLITE: &str = "import sqlite3, sys
store = sqlite3.connect(sys.argv[1], isolation_level=None)
store.execute('BEGIN IMMEDIATE')
print('held', flush=True)
sys.stdin.read()";

/// Takes every table from those who would write.
const POSTGRES: &str = "BEGIN;
DO $$ BEGIN EXECUTE (
    SELECT 'LOCK TABLE ' || string_agg(quote_ident(tablename), ', ') || ' IN EXCLUSIVE MODE'
    FROM pg_tables WHERE schemaname = 'public'
); END $$;
SELECT 'held';
";

/// Another process in the middle of a write: nobody else can write to a folder's store until it is dropped.
#[derive(Debug)]
pub struct Occupied(Child);

impl Occupied {
    /// Occupies the store of a folder.
    pub fn store_of(dir: &Path) -> Self {
        let mut command = match TestStore::wanted() {
            TestStore::Sqlite => {
                let mut python = Command::new("python3");
                python.args(["-c", SQLITE]).arg(sqlite_file(dir));
                python
            }
            TestStore::Postgres => {
                let mut psql = Command::new("psql");
                psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &postgres_url(dir)]);
                psql
            }
        };
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it can be started");
        if TestStore::wanted() == TestStore::Postgres {
            let orders = child.stdin.as_mut().expect("asked for");
            orders.write_all(POSTGRES.as_bytes()).expect("it reads");
        }
        let mut said = String::new();
        let mut answers = BufReader::new(child.stdout.take().expect("asked for"));
        answers.read_line(&mut said).expect("it answers");
        assert_eq!(said, "held\n");
        Self(child)
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
