//! Whether anything becomes slower as events pile up: ingest, pages and claims at several sizes of the whole.
//!
//! A tenth of all events is in one sandbox (a million when there are ten million), the rest in many of ten
//! thousand. Everything gets there by the usual way, over HTTP and through the store.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use sunaba_store::Store;
use tempfile::TempDir;

use crate::claim::{self, CLAIMS, Queue, claim, open_postgres, open_sqlite};
use crate::ingest::{self, CONNECTIONS, SECONDS};
use crate::options::Scale;
use crate::pages::{self, FILL_BATCH, fill, read_two};
use crate::postgres::{Database, Ground, Hints};
use crate::server::{Server, Setup};
use crate::table::{Delays, Table, grouped, median, times};

/// The sandbox with a tenth of the events.
const LARGE: &str = "bench-large";
/// How often ingest is measured at each size; the first time its sandboxes are registered too.
const ROUNDS: usize = 3;
/// How many batches go to one of the others.
const BATCHES_PER_SANDBOX: u64 = 20;
/// About what one event takes on disk with all its indexes, its feed entry and the log of the database.
const BYTES_PER_EVENT: u64 = 1_600;

pub(crate) async fn on_sqlite(table: &mut Table, scale: Scale) -> anyhow::Result<()> {
    let growth = Growth { name: "SQLite", place: Place::Sqlite, data: Arc::new(tempfile::tempdir()?), scale };
    growth.measure(table).await
}

pub(crate) async fn on_postgres(table: &mut Table, scale: Scale) -> anyhow::Result<()> {
    let ground = Ground::start();
    let place = Place::Postgres { database: ground.database(), ground: &ground };
    let growth = Growth { name: "PostgreSQL", place, data: Arc::new(tempfile::tempdir()?), scale };
    growth.measure(table).await
}

/// Where the rows are.
#[derive(Debug)]
enum Place<'a> {
    Sqlite,
    Postgres { ground: &'a Ground, database: Database },
}

#[derive(Debug)]
struct Growth<'a> {
    name: &'static str,
    place: Place<'a>,
    data: Arc<TempDir>,
    scale: Scale,
}

/// What was measured at one size.
#[derive(Debug, Clone)]
struct Figures {
    ingest: f64,
    requests: Delays,
    pages: [Delays; 2],
    claims: Delays,
}

impl Growth<'_> {
    async fn measure(&self, table: &mut Table) -> anyhow::Result<()> {
        let store = self.open().await?;
        let mut queue = Queue::new(&*store).await?;
        queue.grow_to(&store, self.scale.of(200, 10_000)).await?;
        store.close().await;
        let (mut filled, mut rate) = (0, None);
        let mut smallest: Option<(u64, Figures)> = None;
        for &size in self.scale.sizes() {
            if let Err(lack) = announce(size - filled, rate) {
                let what = format!("growth on {}, {} events", self.name, grouped(size));
                table.row(&what, "not measured", format!("{lack:#}"));
                break;
            }
            let started = Instant::now();
            let server = [self.server().await?];
            fill(&server, filled / FILL_BATCH..size / FILL_BATCH, log_of).await?;
            rate = Some((size - filled) as f64 / started.elapsed().as_secs_f64());
            filled = size;
            let mut now = self.at(size, server, &mut queue).await?;
            let (first, before) = smallest.get_or_insert_with(|| (size, now.clone()));
            self.rows(table, size, &mut now, *first, before);
        }
        Ok(())
    }

    async fn at(&self, size: u64, server: [Server; 1], queue: &mut Queue) -> anyhow::Result<Figures> {
        let seconds = self.scale.of(1.0, SECONDS);
        self.settle();
        // Pages first: what ingest adds makes the store dirty again.
        let pages = read_two(&server[0], LARGE, size / 10).await?;
        let (mut rates, mut requests) = (Vec::new(), Delays::default());
        for _ in 0..self.scale.of(1, ROUNDS) {
            let (rate, delays) = ingest::run(&server, &format!("bench-at-{size}"), 100, seconds).await?;
            rates.push(rate);
            requests.extend(delays);
        }
        // The embedded store is one process's at a time.
        drop(server);
        self.settle();
        let store = self.open().await?;
        let claims = claim(&[Arc::clone(&store)], queue.take(self.scale.of(10, CLAIMS))).await?;
        store.close().await;
        Ok(Figures { ingest: median(&rates), requests, pages, claims })
    }

    fn rows(&self, table: &mut Table, size: u64, now: &mut Figures, first: u64, before: &mut Figures) {
        let (name, at, first) = (self.name, grouped(size), grouped(first));
        table.row(
            &format!("growth on {name}, {at} events: ingest, batches of 100, {CONNECTIONS} connections"),
            format!("{:.0} events/s, {}", now.ingest, now.requests.describe()),
            format!("{} its rate with {first} events", times(now.ingest, before.ingest)),
        );
        let large = grouped(size / 10);
        let pages = [("first page", 0), ("deep page", 1)];
        for (what, index) in pages {
            let ratio = times(now.pages[index].quantile_ms(0.99), before.pages[index].quantile_ms(0.99));
            table.row(
                &format!("growth on {name}, {at} events: events, {what} of 100, of a sandbox with {large}"),
                now.pages[index].describe(),
                format!("{}; {ratio} its p99 with {first} events", pages::WANTED),
            );
        }
        let ratio = times(now.claims.quantile_ms(0.5), before.claims.quantile_ms(0.5));
        table.row(
            &format!(
                "growth on {name}, {at} events: claim, {} sandboxes wait",
                self.scale.of("200", "10,000")
            ),
            now.claims.describe(),
            format!("{}; {ratio} its p50 with {first} events", claim::WANTED),
        );
    }

    async fn open(&self) -> anyhow::Result<Arc<dyn Store>> {
        match &self.place {
            Place::Sqlite => open_sqlite(self.data.path()).await,
            Place::Postgres { database, .. } => open_postgres(&database.url).await,
        }
    }

    /// Without the role that would take up what waits.
    async fn server(&self) -> anyhow::Result<Server> {
        let setup = match &self.place {
            Place::Sqlite => Setup::default(),
            Place::Postgres { ground, database } => ground.node(database, Hints::Redis),
        };
        setup.api_only().in_directory(&self.data).start().await
    }

    fn settle(&self) {
        if let Place::Postgres { ground, .. } = &self.place {
            ground.settle();
        }
    }
}

/// Every tenth batch goes to the large one.
fn log_of(batch: u64) -> String {
    if batch.is_multiple_of(10) {
        LARGE.to_owned()
    } else {
        format!("bench-small-{}", batch / BATCHES_PER_SANDBOX)
    }
}

/// Says how long a large step will take, by the rate so far, and refuses one that the disk has no room for.
fn announce(events: u64, rate: Option<f64>) -> anyhow::Result<()> {
    let need = events * BYTES_PER_EVENT;
    let free = free_bytes(&std::env::temp_dir())?;
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    ensure!(
        free > need,
        "it needs about {:.0} GiB in the temporary directory, where {:.0} are free",
        gib(need),
        gib(free)
    );
    if let Some(rate) = rate {
        let minutes = events as f64 / rate / 60.0;
        eprintln!(
            "{} more events take about {minutes:.0} min and {:.1} GiB of disk",
            grouped(events),
            gib(need)
        );
    }
    Ok(())
}

fn free_bytes(place: &Path) -> anyhow::Result<u64> {
    let run =
        Command::new("df").args(["--output=avail", "-B1"]).arg(place).output().context("cannot run df")?;
    let text = String::from_utf8_lossy(&run.stdout);
    let word = text.split_whitespace().last().context("df said nothing")?;
    word.parse().with_context(|| format!("df said {text}"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_tenth_of_the_events_is_in_one_sandbox_and_the_rest_in_many() {
        let mut events: HashMap<String, u64> = HashMap::new();
        for batch in 0..10_000_000 / FILL_BATCH {
            *events.entry(log_of(batch)).or_default() += FILL_BATCH;
        }
        assert_eq!(events.remove(LARGE), Some(1_000_000));
        assert_eq!(events.len(), 1_000);
        assert!(events.values().all(|count| *count == 9_000));
    }

    #[test]
    fn a_step_that_the_disk_has_no_room_for_is_refused() {
        announce(1, Some(10.0)).expect("one event has room");
        let error = announce(1 << 50, None).expect_err("nobody has so much").to_string();
        assert!(error.contains("GiB"), "{error}");
    }
}
