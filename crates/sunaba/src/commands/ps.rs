//! `sunaba ps`: which sandboxes there are.

use std::collections::HashSet;
use std::process::ExitCode;

use sunaba_types::{Clock, SystemClock, Timestamp};

use super::Context;
use crate::args::PsArgs;
use crate::client::{LIVING, Sandbox};
use crate::failure::Outcome;
use crate::output;
use crate::render::{ago, clean_line, dollars, shorten, table};

/// The width for who is not on a terminal.
const USUAL_WIDTH: usize = 80;
/// Longest model shown.
const MODEL_MAX_CHARS: usize = 17;
/// The least that is shown of a prompt.
const PROMPT_LEAST_CHARS: usize = 20;
/// The least that is shown of an id.
const END_LEAST_CHARS: usize = 8;
/// Ids up to this long are not shortened.
const SHORT_ID_CHARS: usize = 12;

/// Lists living sandboxes, or all.
pub(crate) async fn ps(context: &Context, args: &PsArgs) -> Outcome {
    let client = context.client().await?;
    let living = (!args.all).then_some(LIVING);
    let sandboxes = client.sandboxes(living, args.limit).await?;
    if context.json {
        output::json(&sandboxes);
    } else if sandboxes.is_empty() {
        output::note(if args.all {
            "no sandboxes yet"
        } else {
            "no sandbox is running; --all shows the others"
        });
    } else {
        let now = SystemClock.now();
        output::out(&listed(&sandboxes, now, output::width().unwrap_or(USUAL_WIDTH)));
    }
    Ok(ExitCode::SUCCESS)
}

/// A table that fits the terminal: ids by their end, which every command takes, and as much of the prompt as
/// there is room for. `show` and `--json` give the rest.
fn listed(sandboxes: &[Sandbox], now: Timestamp, width: usize) -> String {
    let ids: Vec<&str> = sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect();
    let length = end_length(&ids);
    let mut rows: Vec<Vec<String>> = sandboxes
        .iter()
        .map(|sandbox| {
            vec![
                clean_line(end_of(sandbox.id.as_str(), length)),
                state(sandbox),
                ago(sandbox.created_at, now),
                dollars(sandbox.cost_usd),
                shorten(&clean_line(&sandbox.model), MODEL_MAX_CHARS),
            ]
        })
        .collect();
    let head = ["ID", "STATE", "AGE", "COST", "MODEL", "PROMPT"];
    let taken = table(&head[..5], &rows).lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let room = width.saturating_sub(taken + 2).max(PROMPT_LEAST_CHARS);
    for (row, sandbox) in rows.iter_mut().zip(sandboxes) {
        row.push(shorten(&clean_line(&sandbox.prompt), room));
    }
    table(&head, &rows)
}

/// One that gave its place up has not completed anything.
fn state(sandbox: &Sandbox) -> String {
    match sandbox.terms.suspended {
        Some(_) => "suspended".to_owned(),
        None => sandbox.state.to_string(),
    }
}

/// How many letters at the end of these ids tell them apart.
fn end_length(ids: &[&str]) -> usize {
    let tells_apart = |length: &usize| {
        let ends: HashSet<&str> = ids.iter().map(|id| end_of(id, *length)).collect();
        ends.len() == ids.len()
    };
    (END_LEAST_CHARS..64).find(tells_apart).unwrap_or(usize::MAX)
}

fn end_of(id: &str, length: usize) -> &str {
    // Ids that are short anyway stay whole.
    if id.len() <= SHORT_ID_CHARS {
        return id;
    }
    id.get(id.len().saturating_sub(length)..).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_fits_the_terminal() {
        let one = |id: &str| -> Sandbox {
            serde_json::from_value(serde_json::json!({
                "id": id, "attempt": 0, "provider": "local", "state": "completing",
                "state_entered_at": "2026-01-01T00:00:00Z", "runtime": "native",
                "model": format!("script:{}", "0".repeat(64)), "prompt": "word ".repeat(40),
                "resources": {"memory_gb": 1.0, "cpu": 1.0, "disk_gb": 1.0},
                "created_at": "2026-01-01T00:00:00Z",
            }))
            .unwrap()
        };
        let sandboxes = [one("sbx_0199ab44aaaa11112222"), one("sbx_0199ab44bbbb11112222"), one("ext-1")];
        let text = listed(&sandboxes, "2026-01-01T00:10:00Z".parse().unwrap(), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("\na11112222  ") && text.contains("\next-1 "), "{text}");
    }
}
