//! What PostgreSQL itself does, by its own benchmark program. The scripts are with the store, where all SQL is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};

use super::{Database, Ground};
use crate::client::push_event_data;
use crate::ingest::CONNECTIONS;

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sunaba-store-postgres/pgbench");
/// The design's yardstick commits with so many clients at once.
pub(crate) const CLIENTS: u32 = 16;
/// For so many logs each of them writes, so that together they write for as many as our connections do.
const LOGS_OF_EACH: u64 = CONNECTIONS / CLIENTS as u64;
/// What it may take beyond the time it was told.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is run, and how many rows one transaction of it writes or reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    OneRow,
    HundredRows,
    /// The hundred events before one in the middle of a long log.
    Page {
        before_seq: u64,
    },
}

impl Script {
    fn file(self) -> PathBuf {
        let name = match self {
            Self::OneRow => "one_row.sql",
            Self::HundredRows => "hundred_rows.sql",
            Self::Page { .. } => "page.sql",
        };
        Path::new(SCRIPTS).join(name)
    }

    const fn rows(self) -> f64 {
        match self {
            Self::OneRow => 1.0,
            Self::HundredRows | Self::Page { .. } => 100.0,
        }
    }
}

/// What pgbench reports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Report {
    /// Without the time to connect.
    pub(crate) transactions_per_second: f64,
    /// On average.
    pub(crate) latency_ms: f64,
}

/// Runs pgbench on a database; each run writes under names of its own.
#[derive(Debug)]
pub(crate) struct Yardstick<'a> {
    ground: &'a Ground,
    database: &'a Database,
    round: u32,
}

impl<'a> Yardstick<'a> {
    /// Makes the table it writes to, like the one our events are in: the store must have made that.
    pub(crate) fn new(ground: &'a Ground, database: &'a Database) -> anyhow::Result<Self> {
        let table = std::fs::read_to_string(Path::new(SCRIPTS).join("table.sql"))?;
        ground.postgres.execute(database.name(), table.trim());
        Ok(Self { ground, database, round: 0 })
    }

    /// Rows a second with the design's number of clients.
    pub(crate) async fn rows_per_second(&mut self, script: Script, seconds: f64) -> anyhow::Result<f64> {
        Ok(self.run(script, CLIENTS, seconds).await?.transactions_per_second * script.rows())
    }

    pub(crate) async fn run(&mut self, script: Script, clients: u32, seconds: f64) -> anyhow::Result<Report> {
        self.round += 1;
        let first = if let Script::Page { before_seq } = script { before_seq } else { 0 };
        let mut data = String::new();
        push_event_data(&mut data, 0);
        let payload = data.len();
        let mut command = tokio::process::Command::new(program());
        command
            .args(["-n", "-M", "prepared", "-U", "postgres", "-h", "127.0.0.1"])
            .args(["-p", &self.ground.postgres.port().to_string()])
            .args(["-c", &clients.to_string(), "-j", &clients.min(2).to_string()])
            .args(["-T", &format!("{:.0}", seconds.max(1.0))])
            .args(["-D", &format!("round={}", self.round), "-D", &format!("seq={first}")])
            .args(["-D", &format!("clients={clients}"), "-D", &format!("logs={LOGS_OF_EACH}")])
            .args(["-D", &format!("payload={payload}"), "-f"])
            .arg(script.file())
            .arg(self.database.name())
            .kill_on_drop(true);
        let limit = Duration::from_secs_f64(seconds) + PATIENCE;
        let run = tokio::time::timeout(limit, command.output()).await;
        let run = run.context("pgbench did not end in time")?.context("cannot run pgbench")?;
        let said = String::from_utf8_lossy(&run.stderr);
        ensure!(run.status.success(), "pgbench: {}", said.trim());
        parse(&String::from_utf8_lossy(&run.stdout))
    }
}

/// Reads what it prints at its end.
fn parse(text: &str) -> anyhow::Result<Report> {
    let figure = |name: &str| {
        // Older versions print the rate twice; the last one is without the time to connect.
        let line = text.lines().filter_map(|line| line.trim().strip_prefix(name)).next_back();
        let word = line.and_then(|rest| rest.trim_start_matches([' ', '=', ':']).split_whitespace().next());
        word.and_then(|word| word.parse::<f64>().ok())
            .with_context(|| format!("pgbench said no {name}: {text}"))
    };
    let failed = figure("number of failed transactions").unwrap_or(0.0);
    ensure!(failed == 0.0, "{failed} transactions of pgbench failed");
    Ok(Report { transactions_per_second: figure("tps")?, latency_ms: figure("latency average")? })
}

/// The newest one installed.
fn program() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path())))
        .map(|(version, path)| (version, path.join("bin/pgbench")))
        .filter(|(_, path)| path.is_file())
        .max();
    newest.map_or_else(|| PathBuf::from("pgbench"), |(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "pgbench (15.14)
transaction type: one_row.sql
scaling factor: 1
query mode: prepared
number of clients: 16
number of threads: 2
maximum number of tries: 1
duration: 5 s
number of transactions actually processed: 37210
number of failed transactions: 0 (0.000%)
latency average = 2.148 ms
initial connection time = 21.507 ms
tps = 7447.693028 (without initial connection time)
";

    #[test]
    fn its_report_is_read() {
        let report = parse(NEW).expect("a whole report");
        assert_eq!(report, Report { transactions_per_second: 7447.693028, latency_ms: 2.148 });
    }

    #[test]
    fn older_versions_say_the_rate_twice() {
        let old = "latency average = 2.0 ms\ntps = 100.5 (including connections establishing)\n\
                   tps = 120.25 (excluding connections establishing)\n";
        assert_eq!(parse(old).expect("a report").transactions_per_second, 120.25);
    }

    #[test]
    fn a_run_that_failed_gives_no_figure() {
        let failed = NEW.replace("failed transactions: 0 (0.000%)", "failed transactions: 3 (0.008%)");
        assert!(parse(&failed).expect_err("three failed").to_string().contains("3 transactions"));
        assert!(parse("pgbench: error: connection failed").is_err());
    }

    #[test]
    fn the_scripts_are_where_they_are_looked_for() {
        for script in [Script::OneRow, Script::HundredRows, Script::Page { before_seq: 1 }] {
            assert!(script.file().is_file(), "{}", script.file().display());
        }
    }
}
