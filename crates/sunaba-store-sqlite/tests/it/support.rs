//! Stores for tests.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, SqliteConnection};
use sunaba_store::conformance::World;
use sunaba_store::{Append, AppendOutcome, EventStore as _, Writer};
use sunaba_store_sqlite::{Options, SqliteStore};
use sunaba_types::{EventPayload, NewEvent, SandboxId, Source, SystemClock, new_event_id};

/// A fresh store in a directory of its own, with a clock that is moved by hand.
pub(crate) async fn fresh() -> World {
    let directory = tempfile::tempdir().unwrap();
    let clock = World::clock();
    let options = Options::new(directory.path().join("sunaba.db"), Arc::clone(&clock) as _);
    World::new(SqliteStore::open(options).await.unwrap(), clock, directory)
}

/// A store on this file, with the machine's clock.
pub(crate) async fn open(path: &Path) -> Arc<SqliteStore> {
    SqliteStore::open(Options::new(path, Arc::new(SystemClock))).await.unwrap()
}

/// A second, independent connection to the file.
pub(crate) async fn second_connection(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .disable_statement_logging()
        .connect()
        .await
        .unwrap()
}

pub(crate) fn event(event_type: &str, payload: Value) -> NewEvent {
    NewEvent {
        event_id: new_event_id(),
        event_type: event_type.to_owned(),
        source: Source::Agent,
        payload: EventPayload::from_value(&payload).unwrap(),
        step: None,
    }
}

pub(crate) fn numbered(count: usize) -> Vec<NewEvent> {
    (0..count).map(|n| event("agent.message", json!({"n": n, "content": "some words of an agent"}))).collect()
}

pub(crate) async fn append(
    store: &SqliteStore,
    id: &SandboxId,
    events: Vec<NewEvent>,
) -> sunaba_store::Result<Vec<AppendOutcome>> {
    store.append(Append { sandbox_id: id.clone(), writer: Writer::Registrar, events }).await
}
