//! Promises 1, 2, 3 and 12 under kill -9: what got its 200 is stored once, in
//! order, chained, and a subscriber that comes back sees each event once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::api::{Api, http_client};
use crate::server::Server;
use crate::subscriber;
use crate::writer::{Acknowledged, Writer};

const WRITERS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_loses_nothing_that_was_acknowledged() -> anyhow::Result<()> {
    let seed = number("SUNABA_SEED").unwrap_or_else(|| rand::rng().random());
    let kills = number("SUNABA_KILLS").unwrap_or(5);
    println!("kill test: SUNABA_SEED={seed} SUNABA_KILLS={kills}");
    let mut random = StdRng::seed_from_u64(seed);

    let data = tempfile::tempdir()?;
    let mut server = Server::start(data.path()).await?;
    let (url, token) = (server.url(), server.token()?);
    let client = http_client();

    let stop_writing = CancellationToken::new();
    let acknowledged_now = Arc::new(Notify::new());
    let mut writers = JoinSet::new();
    for index in 0..WRITERS {
        let writer = Writer {
            client: client.clone(),
            url: url.clone(),
            token: token.clone(),
            sandbox: format!("kill-{index}"),
            acknowledged: Arc::clone(&acknowledged_now),
            batch: if index % 2 == 0 { 1 } else { 20 },
        };
        let (name, stop) = (writer.sandbox.clone(), stop_writing.clone());
        writers.spawn(async move { (name, writer.write(stop).await) });
    }
    let stop_watching = CancellationToken::new();
    let watching = tokio::spawn(subscriber::watch(url.clone(), token.clone(), stop_watching.clone()));

    for kill in 0..kills {
        tokio::time::sleep(Duration::from_millis(random.random_range(50..900))).await;
        if kill % 2 == 0 {
            // The instant after a 200 is when an acknowledgement given too early would be found out.
            tokio::time::timeout(Duration::from_secs(10), acknowledged_now.notified()).await?;
        }
        server.kill_and_restart().await?;
    }
    stop_writing.cancel();
    let mut acknowledged: HashMap<String, Acknowledged> = HashMap::new();
    while let Some(done) = writers.join_next().await {
        let (name, known) = done?;
        acknowledged.insert(name.clone(), known.with_context(|| name)?);
    }

    let api = Api::new(url, token);
    let stored = check_logs(&api, &acknowledged).await?;
    let marker = serde_json::json!({ "event_type": subscriber::MARKER });
    api.post("/api/v1/sandboxes/marker/events", &marker).await?;
    let seen = tokio::time::timeout(Duration::from_secs(30), watching)
        .await
        .context("the subscriber did not catch up within 30 s")??;
    stop_watching.cancel();
    check_subscriber(&seen.events, &stored)?;

    let events: usize = stored.values().map(Vec::len).sum();
    let repeats: u64 = acknowledged.values().map(|known| known.repeats).sum();
    println!(
        "kill test: {kills} kills, {events} events, {repeats} repeated requests, {} reconnects: nothing lost",
        seen.reconnects
    );
    ensure!(events > 0, "nothing was written");
    Ok(())
}

/// Every acknowledged id stored once. Gives the message ids of each log.
async fn check_logs(
    api: &Api,
    acknowledged: &HashMap<String, Acknowledged>,
) -> anyhow::Result<HashMap<String, Vec<String>>> {
    let mut stored = HashMap::new();
    for (sandbox, known) in acknowledged {
        let log = api.whole_log(sandbox).await?;
        let ids: Vec<String> =
            log.iter().filter(|event| event["event_type"] == "agent.message").map(event_id).collect();
        let distinct: HashSet<&String> = ids.iter().collect();
        ensure!(distinct.len() == ids.len(), "{sandbox}: an event was stored twice");
        for id in &known.ids {
            ensure!(distinct.contains(id), "{sandbox}: {id} was acknowledged and is lost");
        }
        stored.insert(sandbox.clone(), ids);
    }
    Ok(stored)
}

fn event_id(event: &Value) -> String {
    event["id"].as_str().unwrap_or_default().to_owned()
}

/// Each stored event once, in the order of its log.
fn check_subscriber(seen: &[(String, String)], stored: &HashMap<String, Vec<String>>) -> anyhow::Result<()> {
    let mut by_sandbox: HashMap<&str, Vec<&str>> = HashMap::new();
    for (sandbox, id) in seen {
        by_sandbox.entry(sandbox).or_default().push(id);
    }
    for (sandbox, ids) in stored {
        let seen = by_sandbox.remove(sandbox.as_str()).unwrap_or_default();
        ensure!(
            seen.iter().copied().eq(ids.iter().map(String::as_str)),
            "{sandbox}: stored {} events, the subscriber saw {} or in another order",
            ids.len(),
            seen.len()
        );
    }
    Ok(())
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
