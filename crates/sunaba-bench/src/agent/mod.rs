//! What the worker adds to the native agent, how soon a message is in a model's request, and how soon an interrupt is
//! confirmed.
//!
//! The model is a stand-in that answers at once, so that nothing hides behind it.

mod bare;
mod edge;

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::alive;
use crate::client::Connection;
use crate::sandboxes::{post, small_repository, wait_for, wait_for_end};
use crate::server::Server;
use crate::table::{Delays, Table, times};
use edge::{CALLS, Edge, Wish};

const MESSAGES: usize = 50;
const INTERRUPTS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn measure(table: &mut Table) -> anyhow::Result<()> {
    let edge = Edge::start().await?;
    let server = Server::start_with_model_at(edge.url()).await?;
    let repository = small_repository()?;
    let mut connection = server.connect().await?;
    let project = post(&mut connection, "/api/v1/projects", &json!({"repo_path": repository.path()})).await?;
    let mut place = Place { connection, project: project["id"].clone(), edge };
    tool_calls(table, &mut place).await?;
    messages(table, &mut place).await?;
    interrupts(table, &mut place, &server).await
}

/// Where runs are made.
struct Place {
    connection: Connection,
    project: Value,
    edge: Edge,
}

impl Place {
    async fn run(&mut self, wish: Wish) -> anyhow::Result<String> {
        let body = json!({"project_id": self.project, "prompt": wish.words(), "model": "claude-sonnet-4-5",
            "budget_usd": 1000});
        let sandbox = post(&mut self.connection, "/api/v1/sandboxes", &body).await?;
        Ok(sandbox["id"].as_str().context("id")?.to_owned())
    }

    /// Says something to a sandbox; when that was acknowledged.
    async fn say(&mut self, id: &str, kind: &str, words: &str) -> anyhow::Result<Instant> {
        let body = json!({"content": words, "message_type": kind});
        post(&mut self.connection, &format!("/api/v1/sandboxes/{id}/messages"), &body).await?;
        Ok(Instant::now())
    }

    /// How many events of a type there are.
    async fn count(&mut self, id: &str, event_type: &str) -> anyhow::Result<i64> {
        let path = format!("/api/v1/sandboxes/{id}/events?limit=1&event_type={event_type}");
        let page: Value = serde_json::from_slice(&self.connection.get(&path).await?)?;
        page["total_count"].as_i64().context("total_count")
    }
}

/// The same calls of a command that does nothing: in a sandbox, and by the same agent without one.
async fn tool_calls(table: &mut Table, place: &mut Place) -> anyhow::Result<()> {
    bare::run(place.edge.url()).await?;
    let mut bare = place.edge.intervals();
    let id = place.run(Wish::Calls).await?;
    wait_for_end(&mut place.connection, &id).await?;
    let mut inside = place.edge.intervals();
    let (in_ms, bare_ms) = (inside.quantile_ms(0.5), bare.quantile_ms(0.5));
    table.row(
        &format!("from one model request to the next, a command that does nothing between ({CALLS} calls)"),
        format!("in a sandbox {}", inside.describe()),
        format!(
            "the same agent bare {}: {}, {:.1} ms more a call",
            bare.describe(),
            times(in_ms, bare_ms),
            in_ms - bare_ms
        ),
    );
    Ok(())
}

/// Messages to an agent that is in a command of 50 ms each time.
async fn messages(table: &mut Table, place: &mut Place) -> anyhow::Result<()> {
    let id = place.run(Wish::Busy).await?;
    wait_for(&mut place.connection, &id, "agent.tool_use").await?;
    let mut delays = Delays::default();
    for number in 0..MESSAGES {
        let words = format!("message number {number}.");
        let said = place.say(&id, "user_message", &words).await?;
        let arrived = place.edge.first_with(&words, PATIENCE).await?;
        delays.push(arrived.saturating_duration_since(said));
    }
    place.say(&id, "user_message", edge::ENOUGH).await?;
    wait_for_end(&mut place.connection, &id).await?;
    table.row(
        &format!("message to the model's next request, the agent in commands of 50 ms ({MESSAGES} messages)"),
        delays.describe(),
        "of it up to 50 ms and more is the command's",
    );
    Ok(())
}

/// Interrupts of a command that would take ten minutes, each confirmed when nothing of it is left.
async fn interrupts(table: &mut Table, place: &mut Place, server: &Server) -> anyhow::Result<()> {
    let id = place.run(Wish::Stuck).await?;
    let mut delays = Delays::default();
    for number in 0..INTERRUPTS {
        until(place, &id, "agent.tool_use", number + 1).await?;
        let said = place.say(&id, "interrupt", "go on with the next one").await?;
        delays
            .push(until(place, &id, "agent.interrupted", number + 1).await?.saturating_duration_since(said));
    }
    until(place, &id, "agent.tool_use", INTERRUPTS + 1).await?;
    let memory = alive::memory_mib(&server.data_directory(), |words| {
        words[0].ends_with("sunaba-worker")
            && words.get(1).is_some_and(|part| ["work", "bridge"].contains(part))
    })?;
    table.row(
        &format!("interrupt to its confirmation, the agent in a command ({INTERRUPTS} interrupts)"),
        format!("{}, p95 {:.0} ms", delays.describe(), delays.quantile_ms(0.95)),
        "wanted p95 ≤ 1,000 ms",
    );
    table.row("worker and bridge of a sandbox at work", format!("{memory:.1} MiB (PSS)"), "wanted ≤ 10 MiB");
    place.say(&id, "interrupt", edge::ENOUGH).await?;
    wait_for_end(&mut place.connection, &id).await
}

/// When there were so many events of a type.
async fn until(place: &mut Place, id: &str, event_type: &str, many: usize) -> anyhow::Result<Instant> {
    let deadline = Instant::now() + PATIENCE;
    let many = i64::try_from(many)?;
    while place.count(id, event_type).await? < many {
        ensure!(Instant::now() < deadline, "{id}: not {many} {event_type} within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(Instant::now())
}
