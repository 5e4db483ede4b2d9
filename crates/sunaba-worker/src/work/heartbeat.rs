//! Says that the worker lives, whatever the agent is doing. Never spooled: an old heartbeat says nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};
use sunaba_types::{Clock as _, Source, SystemClock};
use tokio::time::{MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use super::http::Client;
use super::report::Reporter;

/// The heartbeat task.
#[derive(Debug)]
pub(super) struct Heartbeat {
    pub(super) reporter: Reporter,
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) every: Duration,
    /// Whether the agent waits for somebody.
    pub(super) waiting: Arc<AtomicBool>,
    pub(super) over: CancellationToken,
}

impl Heartbeat {
    /// Beats until the task is dropped or the server says stop.
    pub(super) async fn run(mut self) {
        let mut ticks = interval_at(tokio::time::Instant::now() + self.every, self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // The first thing the server hears is that the agent started.
            if !self.reporter.was_heard() {
                continue;
            }
            let event = self.reporter.envelope("agent.heartbeat", Source::Worker, self.fields());
            match self
                .client
                .post(&self.path, Bytes::from(event.to_string()), self.every.max(Duration::from_secs(1)))
                .await
            {
                Ok(answer) if answer.says_stop() => return self.over.cancel(),
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "heartbeat not sent"),
            }
        }
    }

    fn fields(&self) -> Map<String, Value> {
        let status = if self.waiting.load(Ordering::Relaxed) { "waiting" } else { "running" };
        let usage = usage();
        let fields = serde_json::json!({
            "timestamp": SystemClock.now().to_string(),
            "status": status,
            "event_count": self.reporter.event_count(),
            "dropped_output_events": self.reporter.dropped_output(),
            "memory_bytes": usage.memory_bytes,
            "processes": usage.processes,
            "cpu_seconds": usage.cpu_seconds,
        });
        match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }
}

/// What the processes of this sandbox use.
#[derive(Debug, Default, PartialEq)]
struct Usage {
    memory_bytes: u64,
    processes: u64,
    cpu_seconds: f64,
}

/// Everything this process can see is its sandbox.
fn usage() -> Usage {
    let mut usage = Usage::default();
    let Ok(entries) = std::fs::read_dir("/proc") else { return usage };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, fields)) = stat.rsplit_once(") ") else { continue };
        let fields: Vec<u64> = fields.split(' ').map(|field| field.trim().parse().unwrap_or(0)).collect();
        // Counted from the state: user and system time in ticks of 1/100 s, resident pages of 4 KiB.
        let at = |index: usize| fields.get(index).copied().unwrap_or(0);
        usage.processes += 1;
        usage.memory_bytes += at(21) * 4096;
        usage.cpu_seconds += (at(11) + at(12)) as f64 / 100.0;
    }
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_counts_this_process() {
        let usage = usage();
        assert!(usage.processes >= 1);
        assert!(usage.memory_bytes > 100_000, "{usage:?}");
    }
}
