//! One end of a move: a SQLite file with the directory that is locked for it, or a PostgreSQL database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use sunaba_store::Store;
use sunaba_store::transfer::Target;
use sunaba_store_postgres::PostgresStore;
use sunaba_store_sqlite::SqliteStore;
use sunaba_types::SystemClock;

use crate::config::{self, Database};
use crate::failure::{Failure, Outcome};
use crate::serve::lock::DataDirLock;

/// The database's file in a data directory.
const FILE: &str = "sunaba.db";

/// Where rows are, or will be.
#[derive(Debug)]
pub(super) enum End {
    /// A file.
    File(PathBuf),
    /// A database.
    Postgres(SecretString),
}

impl End {
    /// Reads `sqlite:FILE`, `sqlite:DIR`, a directory or `postgres://…`.
    pub(super) fn read(text: &str) -> Outcome<Self> {
        let path = text.strip_prefix("sqlite://").or_else(|| text.strip_prefix("sqlite:"));
        let dir = Path::new(path.unwrap_or(text));
        if dir.is_dir() {
            return Ok(Self::File(dir.join(FILE)));
        }
        match config::database(text) {
            Ok(Database::File(path)) => Ok(Self::File(path)),
            Ok(Database::Postgres(url)) => Ok(Self::Postgres(url)),
            Ok(Database::InDataDir) => Err(Failure::usage("name a database")),
            Err(why) => Err(Failure::usage(format!("{} {why}", config::without_password(text)))),
        }
    }

    /// The database of a data directory.
    pub(super) fn of_data_dir(dir: &Path) -> Self {
        Self::File(dir.join(FILE))
    }

    /// As it may be shown.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::File(path) => format!("sqlite:{}", path.display()),
            Self::Postgres(url) => config::without_password(url.expose_secret()),
        }
    }

    /// The directory of the file.
    pub(super) fn dir(&self) -> Option<&Path> {
        match self {
            Self::File(path) => path.parent(),
            Self::Postgres(_) => None,
        }
    }

    /// Keeps servers away from the file's directory while this lives.
    pub(super) fn lock(&self) -> Outcome<Option<DataDirLock>> {
        match self.dir() {
            Some(dir) if !dir.is_dir() => {
                Err(Failure::usage(format!("there is no directory {}", dir.display())))
            }
            Some(dir) => DataDirLock::take(dir).map(Some),
            None => Ok(None),
        }
    }

    /// Opens what is there; refuses what a server still serves.
    pub(super) async fn open(&self) -> Outcome<Arc<dyn Store>> {
        let store: Arc<dyn Store> = match self {
            Self::File(path) if !path.is_file() => {
                return Err(Failure::usage(format!("there is no database {}", path.display())));
            }
            Self::File(path) => {
                let options = sunaba_store_sqlite::Options::new(path, Arc::new(SystemClock));
                SqliteStore::open(options).await.map_err(other)?
            }
            Self::Postgres(url) => {
                let options = sunaba_store_postgres::Options::new(url.expose_secret(), Arc::new(SystemClock));
                PostgresStore::open(options).await.map_err(other)?
            }
        };
        let nodes = store.list_nodes().await.map_err(other)?;
        if let Some(node) = nodes.iter().find(|node| node.is_up()) {
            let (id, address) = (&node.report.id, &node.report.address);
            return Err(Failure::other(format!(
                "the server at {address} ({id}) serves {}; stop it first (one that was killed counts as there for \
                 {} seconds)",
                self.shown(),
                sunaba_types::limits::NODE_SILENCE.as_secs()
            )));
        }
        Ok(store)
    }

    /// Opens it to be written whole.
    pub(super) async fn target(&self) -> Outcome<Box<dyn Target>> {
        let clock = Arc::new(SystemClock);
        Ok(match self {
            Self::File(path) => {
                let options = sunaba_store_sqlite::Options::new(path, clock);
                Box::new(sunaba_store_sqlite::Target::connect(options).await.map_err(other)?)
            }
            Self::Postgres(url) => {
                let options = sunaba_store_postgres::Options::new(url.expose_secret(), clock);
                Box::new(sunaba_store_postgres::Target::connect(options).await.map_err(other)?)
            }
        })
    }
}

pub(super) fn other(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::Other(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_and_shown_without_their_password() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().display();
        for text in [format!("{path}"), format!("sqlite:{path}"), format!("sqlite:{path}/sunaba.db")] {
            assert_eq!(End::read(&text).unwrap().shown(), format!("sqlite:{path}/sunaba.db"), "{text}");
        }
        let end = End::read("postgres://me:geheim@h/d").unwrap();
        assert_eq!((end.shown().as_str(), end.dir()), ("postgres://me:***@h/d", None));
        for text in ["", "/nowhere/at/all", "postgres://me:geheim@h", "mysql://me:geheim@h/d"] {
            let refused = End::read(text).unwrap_err();
            assert_eq!(refused.exit_code(), 2, "{text}");
            assert!(!refused.to_string().contains("geheim"), "{refused}");
        }
    }
}
