//! Opens the store that the configuration names: the embedded one, or PostgreSQL.

use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use sunaba_store::Store;
use sunaba_store_postgres::{PostgresStore, SoleOrchestrator};
use sunaba_store_sqlite::SqliteStore;
use sunaba_types::Clock;

use crate::config::{Config, Database};
use crate::failure::{Failure, Outcome};

/// The store, and what comes with it.
pub(super) struct Opened {
    pub(super) store: Arc<dyn Store>,
    /// Held for as long as this process looks after the sandboxes of a database that others use too.
    pub(super) sole: Option<SoleOrchestrator>,
}

/// Opens the store and brings it up to date.
pub(super) async fn open(config: &Config, clock: &Arc<dyn Clock>) -> Outcome<Opened> {
    let path = match &config.database {
        Database::InDataDir => config.data_dir.join("sunaba.db"),
        Database::File(path) => path.clone(),
        Database::Postgres(url) => return open_postgres(config, url, clock).await,
    };
    let options = sunaba_store_sqlite::Options::new(path, Arc::clone(clock));
    let store = SqliteStore::open(options).await.map_err(|error| Failure::Other(error.into()))?;
    Ok(Opened { store, sole: None })
}

async fn open_postgres(config: &Config, url: &SecretString, clock: &Arc<dyn Clock>) -> Outcome<Opened> {
    let refused = |error: sunaba_store_postgres::OpenError| Failure::Other(error.into());
    let options = sunaba_store_postgres::Options::new(url.expose_secret(), Arc::clone(clock));
    let store = PostgresStore::open(options).await.map_err(refused)?;
    let sole = match config.roles.orchestrator {
        true => Some(store.sole_orchestrator().await.map_err(refused)?),
        false => None,
    };
    Ok(Opened { store, sole })
}
