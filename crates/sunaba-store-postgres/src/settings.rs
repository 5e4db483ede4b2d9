//! The store as a whole: whether it works, small named values, closing.

use async_trait::async_trait;
use sunaba_store::transfer::Source;
use sunaba_store::{Result, Store};

use crate::PostgresStore;
use crate::fault::Fault;
use crate::page::InTime as _;
use crate::transfer::Snapshot;
use crate::unit::Unit;
use crate::writer::Command;

struct Probe;

#[async_trait]
impl Command<Unit> for Probe {
    type Output = ();

    async fn run(&self, unit: &mut Unit) -> Result<(), Fault> {
        // A real write: an empty transaction would commit on a full disk too.
        unit.probe();
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
            "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
            self.name,
            self.value
        )
        .execute(unit.sql())
        .await?;
        let held = sqlx::query_scalar!("SELECT value FROM settings WHERE name = $1", self.name)
            .fetch_one(unit.sql())
            .await?;
        Ok(held)
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn kind(&self) -> &'static str {
        "postgres"
    }

    async fn check(&self) -> Result<()> {
        sqlx::query_scalar!("SELECT position FROM feed_counter").fetch_one(&self.readers).in_time().await?;
        self.writer.run(Probe).await
    }

    async fn find_setting(&self, name: &str) -> Result<Option<String>> {
        sqlx::query_scalar!("SELECT value FROM settings WHERE name = $1", name)
            .fetch_optional(&self.readers)
            .in_time()
            .await
    }

    async fn set_setting_once(&self, name: &str, value: &str) -> Result<String> {
        self.writer.run(SetOnce { name: name.to_owned(), value: value.to_owned() }).await
    }

    async fn read_whole(&self) -> Result<Box<dyn Source>> {
        Ok(Box::new(Snapshot::take(&self.readers).await?))
    }

    async fn close(&self) {
        self.writer.close().await;
        self.stop.cancel();
        self.background.wait().await;
        self.feed_lines.close().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sunaba_testkit::Postgres;
    use sunaba_types::SystemClock;

    use super::*;
    use crate::Options;

    /// Writes and then fails as no command should.
    struct Broken;

    #[async_trait]
    impl Command<Unit> for Broken {
        type Output = ();

        async fn run(&self, unit: &mut Unit) -> Result<(), Fault> {
            sqlx::query("INSERT INTO settings (name, value) VALUES ('half', 'done')")
                .execute(unit.sql())
                .await?;
            panic!("a defect in a command");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_a_defect_leaves_half_done_is_undone() {
        let options = Options::new(Postgres::shared().database(), Arc::new(SystemClock));
        let store = PostgresStore::open(Options { writers: 1, ..options }).await.unwrap();
        assert!(store.writer.run(Broken).await.is_err());
        assert_eq!(store.set_setting_once("next", "written").await.unwrap(), "written");
        assert_eq!(
            store.find_setting("half").await.unwrap(),
            None,
            "not taken along by the next transaction"
        );
        store.check().await.unwrap();
    }
}
