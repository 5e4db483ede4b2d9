//! The store as a whole: whether it works, small named values, closing.

use async_trait::async_trait;
use sunaba_store::transfer::Source;
use sunaba_store::{Result, Store};

use crate::SqliteStore;
use crate::fault::{Fault, told};
use crate::transfer::Snapshot;
use crate::unit::Unit;
use crate::writer::Command;

struct Probe;

#[async_trait]
impl Command<Unit> for Probe {
    type Output = ();

    async fn run(&self, unit: &mut Unit) -> Result<(), Fault> {
        // A real write: an empty transaction would commit on a full disk too.
        sqlx::query!("UPDATE feed_counter SET position = position WHERE id = 1").execute(unit.sql()).await?;
        Ok(())
    }
}

struct SetOnce {
    name: String,
    value: String,
}

#[async_trait]
impl Command<Unit> for SetOnce {
    type Output = String;

    async fn run(&self, unit: &mut Unit) -> Result<String, Fault> {
        sqlx::query!(
            "INSERT INTO settings (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
            self.name,
            self.value
        )
        .execute(unit.sql())
        .await?;
        let held = sqlx::query_scalar!("SELECT value FROM settings WHERE name = ?1", self.name)
            .fetch_one(unit.sql())
            .await?;
        Ok(held)
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn kind(&self) -> &'static str {
        "sqlite"
    }

    async fn check(&self) -> Result<()> {
        sqlx::query_scalar!("SELECT position FROM feed_counter")
            .fetch_one(&self.readers)
            .await
            .map_err(told)?;
        self.writer.run(Probe).await
    }

    async fn find_setting(&self, name: &str) -> Result<Option<String>> {
        sqlx::query_scalar!("SELECT value FROM settings WHERE name = ?1", name)
            .fetch_optional(&self.readers)
            .await
            .map_err(told)
    }

    async fn set_setting_once(&self, name: &str, value: &str) -> Result<String> {
        self.writer.run(SetOnce { name: name.to_owned(), value: value.to_owned() }).await
    }

    async fn read_whole(&self) -> Result<Box<dyn Source>> {
        Ok(Box::new(Snapshot::take(&self.readers).await?))
    }

    async fn close(&self) {
        self.writer.close().await;
        self.readers.close().await;
    }
}
