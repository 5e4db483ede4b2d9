//! What the way through bridge, door and gateway costs on a streamed answer: the same request from
//! inside a sandbox and, for comparison, straight to the model's address.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::{Context, ensure};
use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::model::{begin, end, frame, says, uses};
use crate::sandboxes::{post as ask, small_repository, wait_for_end};
use crate::server::Server;
use crate::table::{Delays, Table};

/// Requests in each of the two ways, in turn.
const REQUESTS: usize = 30;
/// Pieces of one streamed answer, about 120 bytes each.
const PIECES: usize = 20_000;
/// Asks the upstream for the long stream.
const STREAM: &str = "stream please";

pub(crate) async fn measure(table: &mut Table) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let upstream = format!("http://{}", listener.local_addr()?);
    let serving = tokio::spawn(async move {
        axum::serve(listener, Router::new().route("/v1/messages", post(answer))).await
    });
    let direct = run(&upstream).await?;
    let through = inside(&upstream).await?;
    serving.abort();
    let (mut direct_first, direct_rate) = direct;
    let (mut through_first, through_rate) = through;
    table.row(
        "gateway, streamed answer asked for inside a sandbox: first byte",
        through_first.describe(),
        format!("straight to the model's address {}", direct_first.describe()),
    );
    table.row(
        "gateway, the same: throughput",
        format!("{through_rate:.0} MiB/s"),
        format!("straight {direct_rate:.0} MiB/s: {:.2} ×", through_rate / direct_rate),
    );
    Ok(())
}

/// The stand-in for a model: an agent's first request gets the command to measure, the command's own requests the
/// long stream, and what follows a tool's result the end.
async fn answer(body: Bytes) -> Response {
    let text = String::from_utf8_lossy(&body);
    if text.contains(STREAM) && !text.contains("\"tools\"") {
        return streamed();
    }
    if text.contains("tool_result") {
        return says("done");
    }
    let input = json!({"command": command("http://127.0.0.1:3129/gateway/anthropic", "$ANTHROPIC_API_KEY"), "timeout": 240_000});
    uses("toolu_1", &input)
}

fn streamed() -> Response {
    let piece = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "twenty words "}});
    let piece = Bytes::from(frame(&piece));
    let start = frame(&begin())
        + &frame(
            &json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        );
    let all = std::iter::once(Bytes::from(start))
        .chain(std::iter::repeat_n(piece, PIECES))
        .chain(std::iter::once(Bytes::from(end("end_turn"))));
    let stream = futures::stream::iter(all.map(Ok::<_, Infallible>)).then(|piece| async {
        // A real stream gives way between its pieces.
        tokio::task::yield_now().await;
        piece
    });
    ([("content-type", "text/event-stream")], Body::from_stream(stream)).into_response()
}

/// Prints the first byte's delay, the whole time and the size of each answer.
fn command(base: &str, key: &str) -> String {
    let body = json!({"model": "claude-sonnet-4-5", "max_tokens": 1000, "stream": true,
        "messages": [{"role": "user", "content": STREAM}]});
    format!(
        "for n in $(seq {REQUESTS}); do curl -sS -o /dev/null -w 'took %{{time_starttransfer}} %{{time_total}} %{{size_download}}\\n' \
         --noproxy '*' -H \"x-api-key: {key}\" -H 'content-type: application/json' -d '{body}' {base}/v1/messages; done"
    )
}

async fn run(upstream: &str) -> anyhow::Result<(Delays, f64)> {
    let output = tokio::process::Command::new("sh").arg("-c").arg(command(upstream, "none")).output().await?;
    read(&String::from_utf8_lossy(&output.stdout))
}

async fn inside(upstream: &str) -> anyhow::Result<(Delays, f64)> {
    let server = Server::start_with_model_at(upstream).await?;
    let repository = small_repository()?;
    let mut connection = server.connect().await?;
    let project = ask(&mut connection, "/api/v1/projects", &json!({"repo_path": repository.path()})).await?;
    let body = json!({"project_id": project["id"], "prompt": "measure", "model": "claude-sonnet-4-5"});
    let sandbox = ask(&mut connection, "/api/v1/sandboxes", &body).await?;
    let id = sandbox["id"].as_str().context("id")?.to_owned();
    tokio::time::timeout(Duration::from_secs(300), wait_for_end(&mut connection, &id)).await??;
    let page = connection
        .get(&format!("/api/v1/sandboxes/{id}/events?event_type=agent.tool_completed&limit=1"))
        .await?;
    let page: Value = serde_json::from_slice(&page)?;
    read(page["events"][0]["event_data"]["tool_response"].as_str().context("the command's output")?)
}

/// The delays of the first byte and the mean rate in MiB a second.
fn read(output: &str) -> anyhow::Result<(Delays, f64)> {
    let mut first = Delays::default();
    let (mut seconds, mut bytes) = (0.0, 0.0);
    for line in output.lines().filter_map(|line| line.trim().strip_prefix("took ")) {
        let numbers = line.split(' ').map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        let [starts, total, size] = numbers[..] else { anyhow::bail!("not three numbers: {line}") };
        first.push(Duration::from_secs_f64(starts));
        seconds += total;
        bytes += size;
    }
    ensure!(bytes > 1000.0 * REQUESTS as f64, "the answers were not streams: {output}");
    Ok((first, bytes / seconds / 1024.0 / 1024.0))
}
