//! `sunaba verify`: is every event of a log as it was stored?

use std::process::ExitCode;

use serde_json::Value;

use super::Context;
use crate::client::{Client, resolve};
use crate::failure::Outcome;
use crate::output;

/// How many sandboxes `--all` asks for at once.
const PAGE: u32 = 500;

/// Checks one log, or all of them.
pub(crate) async fn verify(context: &Context, word: Option<&str>) -> Outcome {
    let client = context.client().await?;
    let ids = match word {
        Some(word) => vec![resolve(&client, word).await?],
        None => every_id(&client).await?,
    };
    let mut broken = 0_usize;
    for id in &ids {
        let mut verdict = client.verify(id).await?;
        let holds = verdict.get("ok").and_then(Value::as_bool).unwrap_or(false);
        broken += usize::from(!holds);
        if context.json {
            verdict["sandbox_id"] = Value::from(id.as_str());
            output::json(&verdict);
        } else {
            output::line(&words(context, id, &verdict, holds));
        }
    }
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn every_id(client: &Client) -> Outcome<Vec<String>> {
    let mut ids: Vec<String> = Vec::new();
    loop {
        let page = client.sandboxes_before(ids.last().map(String::as_str), PAGE).await?;
        let is_last = page.len() < PAGE as usize;
        ids.extend(page.into_iter().map(|sandbox| sandbox.id.to_string()));
        if is_last {
            return Ok(ids);
        }
    }
}

fn words(context: &Context, id: &str, verdict: &Value, holds: bool) -> String {
    let events = verdict.get("events").and_then(Value::as_i64).unwrap_or(0);
    if holds {
        return format!("{} {id}: {events} events, the chain holds", context.colour.green("✔"));
    }
    let bad = verdict.get("first_bad_seq").and_then(Value::as_i64).unwrap_or(events + 1);
    format!("{} {id}: event {bad} is not as it was written", context.colour.red("✘"))
}
