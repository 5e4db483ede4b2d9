//! Opens the store that the configuration names: the embedded one, or PostgreSQL.

use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use sunaba_store::Store;
use sunaba_store_postgres::PostgresStore;
use sunaba_store_sqlite::SqliteStore;
use sunaba_types::Clock;

use crate::config::{Config, Database};
use crate::failure::{Failure, Outcome};

/// Opens the store and brings it up to date.
pub(super) async fn open(config: &Config, clock: &Arc<dyn Clock>) -> Outcome<Arc<dyn Store>> {
    let legacy_silence_seconds = i64::from(config.orchestrator.legacy_silence_minutes) * 60;
    let path = match &config.database {
        Database::InDataDir => config.data_dir.join("sunaba.db"),
        Database::File(path) => path.clone(),
        Database::Postgres(url) => return open_postgres(url, clock, legacy_silence_seconds).await,
    };
    let mut options = sunaba_store_sqlite::Options::new(path, Arc::clone(clock));
    options.legacy_silence_seconds = legacy_silence_seconds;
    let store = SqliteStore::open(options).await.map_err(|error| Failure::Other(error.into()))?;
    Ok(store)
}

async fn open_postgres(
    url: &SecretString,
    clock: &Arc<dyn Clock>,
    legacy_silence_seconds: i64,
) -> Outcome<Arc<dyn Store>> {
    let refused = |error: sunaba_store_postgres::OpenError| Failure::Other(error.into());
    let mut options = sunaba_store_postgres::Options::new(url.expose_secret(), Arc::clone(clock));
    options.legacy_silence_seconds = legacy_silence_seconds;
    Ok(PostgresStore::open(options).await.map_err(refused)?)
}
