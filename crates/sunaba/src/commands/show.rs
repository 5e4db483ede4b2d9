//! `sunaba show`: one sandbox at a glance.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::Value;
use sunaba_types::shim::Exit;
use sunaba_types::{Clock, Egress, MessageState, SystemClock, Task, Timestamp};

use super::Context;
use crate::client::{MessageFate, Sandbox, resolve};
use crate::failure::Outcome;
use crate::output;
use crate::render::{ago, clean_line, dollars, message_line, shorten, state_word};

/// Shows state, task, messages and turns.
pub(crate) async fn show(context: &Context, word: &str) -> Outcome {
    let client = context.client().await?;
    let id = resolve(&client, word).await?;
    let sandbox = client.sandbox(&id).await?;
    let task = match &sandbox.task_id {
        Some(task_id) => Some(client.task(task_id.as_str()).await?),
        None => None,
    };
    let messages = client.message_history(&id).await?;
    let outline = client.outline(&id).await?;
    let usage = client.usage(&id).await?;
    if context.json {
        output::json(&serde_json::json!({
            "sandbox": sandbox, "task": task, "messages": messages, "outline": outline, "usage": usage,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let now = SystemClock.now();
    let mut text = facts(context, &sandbox, task.as_ref(), now);
    text.push_str(&used(&usage));
    text.push_str(&turns(&outline));
    text.push_str(&said(context, &messages));
    output::out(&text);
    Ok(ExitCode::SUCCESS)
}

fn facts(context: &Context, sandbox: &Sandbox, task: Option<&Task>, now: Timestamp) -> String {
    let since = ago(sandbox.state_entered_at, now);
    let state = format!("{} for {since}", state_word(sandbox.state, context.colour));
    let resources = sandbox.resources;
    let mut rows = vec![
        ("sandbox", sandbox.id.to_string()),
        ("state", state),
        ("reason", sandbox.reason.clone().unwrap_or_default()),
        (
            "task",
            task.map(|task| format!("{} ({}) {}", task.id, task.status, task.title)).unwrap_or_default(),
        ),
        ("attempt", if task.is_some() { sandbox.attempt.to_string() } else { String::new() }),
        ("provider", sandbox.provider.clone()),
        ("isolation", sandbox.isolation.clone().unwrap_or_default()),
        ("agent", format!("{} · {}", sandbox.runtime, sandbox.model)),
        ("branch", sandbox.branch_name.clone().unwrap_or_default()),
        ("base", sandbox.base_commit.clone().unwrap_or_default()),
        ("commit", sandbox.head_commit.clone().unwrap_or_default()),
        (
            "limits",
            format!(
                "{} GiB memory, {} {}, {} GiB disk",
                resources.memory_gb,
                resources.cpu,
                if (resources.cpu - 1.0).abs() < f64::EPSILON { "core" } else { "cores" },
                resources.disk_gb
            ),
        ),
        ("network", sandbox.egress.as_ref().map(reach).unwrap_or_default()),
        (
            "budget",
            sandbox.terms.budget_usd.map(|usd| format!("{} for the task", dollars(usd))).unwrap_or_default(),
        ),
        ("timeout", sandbox.terms.timeout_seconds.map(|seconds| format!("{seconds} s")).unwrap_or_default()),
        ("cost", dollars(sandbox.cost_usd)),
        ("exit", sandbox.exit.as_ref().map(ended).unwrap_or_default()),
        ("created", format!("{} ({} ago)", sandbox.created_at, ago(sandbox.created_at, now))),
        ("ended", sandbox.ended_at.map(|at| at.to_string()).unwrap_or_default()),
        ("prompt", shorten(&sandbox.prompt, 500)),
    ];
    rows.retain(|(_, value)| !value.is_empty());
    let mut text = String::new();
    for (name, value) in rows {
        // The state alone is coloured by us; everything else may come from anywhere.
        let value = if name == "state" { value } else { clean_line(&value) };
        let _ = writeln!(text, "{name:10}{value}");
    }
    text
}

fn reach(egress: &Egress) -> String {
    let besides =
        if egress.allow.is_empty() { String::new() } else { format!(" and {}", egress.allow.join(", ")) };
    format!("{}{besides}", egress.preset)
}

fn ended(exit: &Exit) -> String {
    let how = match (&exit.error, exit.code, exit.signal) {
        (Some(error), _, _) => error.clone(),
        (None, _, Some(signal)) => format!("signal {signal}"),
        (None, Some(code), None) => format!("code {code}"),
        (None, None, None) => "unknown".to_owned(),
    };
    let limit =
        exit.ended_for.as_ref().map(|limit| format!(", ended for its {limit} limit")).unwrap_or_default();
    let memory =
        if exit.oom_kills > 0 { format!(", {} out of memory", exit.oom_kills) } else { String::new() };
    format!("{how}{limit}{memory}")
}

/// What it took so far: model calls, and what its machine uses now.
fn used(usage: &Value) -> String {
    let number = |path: &str| usage.pointer(path).and_then(Value::as_i64);
    let mut text = String::new();
    if let Some(calls) = number("/model/calls").filter(|calls| *calls > 0) {
        let tokens = |name: &str| number(&format!("/model/{name}")).unwrap_or(0);
        let _ = writeln!(
            text,
            "{:10}{calls} calls, {} tokens in, {} out, {} from the cache",
            "models",
            tokens("input_tokens"),
            tokens("output_tokens"),
            tokens("cache_read_tokens")
        );
    }
    if let Some(memory) = number("/live/memory_bytes") {
        let mib = |bytes: i64| bytes / (1024 * 1024);
        let now = |name: &str| number(&format!("/live/{name}")).unwrap_or(0);
        let _ = writeln!(
            text,
            "{:10}{} MiB memory (most {}), {} s processor, {} processes, {} MiB disk",
            "uses",
            mib(memory),
            mib(now("memory_peak_bytes")),
            now("cpu_ms") / 1000,
            now("pids"),
            mib(now("disk_bytes"))
        );
    }
    text
}

fn turns(outline: &Value) -> String {
    let Some(turns) = outline.get("turns").and_then(Value::as_array).filter(|turns| !turns.is_empty()) else {
        return String::new();
    };
    let mut text = String::from("\nturns\n");
    for turn in turns {
        let number = |name: &str| turn.get(name).and_then(Value::as_i64).unwrap_or(0);
        let _ = writeln!(
            text,
            "  {:>3}  events {}-{}  tools {}  edits {}  messages {}  errors {}",
            number("turn"),
            number("first_seq"),
            number("last_seq"),
            number("tools"),
            number("edits"),
            number("messages"),
            number("errors"),
        );
    }
    text
}

fn said(context: &Context, messages: &[MessageFate]) -> String {
    if messages.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nmessages\n");
    for message in messages {
        let at = message.consumed_seq.map(|seq| format!(" at event {seq}")).unwrap_or_default();
        let state = match message.state {
            MessageState::Consumed => "read",
            MessageState::HandedOver => "taken",
            other => other.as_str(),
        };
        let state = format!("{state}{at}");
        let kind = message.message_type.as_str();
        let _ = write!(
            text,
            "  {}",
            message_line(context.colour, kind, &message.sender, &message.content, &state)
        );
    }
    text
}
