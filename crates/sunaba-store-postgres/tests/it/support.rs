//! Stores for tests.

use std::str::FromStr as _;
use std::sync::Arc;

use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgConnection};
use sunaba_store::conformance::World;
use sunaba_store::{Append, AppendOutcome, EventStore as _, Writer};
use sunaba_store_postgres::{Options, PostgresStore};
use sunaba_testkit::Postgres;
use sunaba_types::chain::GENESIS;
use sunaba_types::{EventPayload, NewEvent, SandboxId, Source, StoredEvent, SystemClock, new_event_id};

/// A fresh store in a database of its own, with a clock that is moved by hand.
pub(crate) async fn fresh() -> World {
    let clock = World::clock();
    let options = Options::new(Postgres::shared().database(), Arc::clone(&clock) as _);
    World::new(PostgresStore::open(options).await.unwrap(), clock, ())
}

/// A store on this database, with the machine's clock.
pub(crate) async fn open(url: &str) -> Arc<PostgresStore> {
    PostgresStore::open(Options::new(url, Arc::new(SystemClock))).await.unwrap()
}

/// An independent connection to the database.
pub(crate) async fn second_connection(url: &str) -> PgConnection {
    PgConnectOptions::from_str(url).unwrap().disable_statement_logging().connect().await.unwrap()
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
    store: &PostgresStore,
    id: &SandboxId,
    events: Vec<NewEvent>,
) -> sunaba_store::Result<Vec<AppendOutcome>> {
    store.append(Append { sandbox_id: id.clone(), writer: Writer::Registrar, events }).await
}

/// The whole log, oldest first.
pub(crate) async fn log(store: &PostgresStore, id: &SandboxId) -> Vec<StoredEvent> {
    let mut log: Vec<StoredEvent> = Vec::new();
    loop {
        let after = log.last().map_or(0, |event| event.seq);
        let page = store.events_after(id, after, 1000).await.unwrap();
        if page.is_empty() {
            return log;
        }
        log.extend(page);
    }
}

/// Numbers without gaps and hashes that follow from each other.
pub(crate) fn assert_chain(log: &[StoredEvent]) {
    let mut previous = GENESIS;
    for (event, seq) in log.iter().zip(1..) {
        assert_eq!((event.seq, event.hash), (seq, event.expected_hash(&previous)));
        previous = event.hash;
    }
}
