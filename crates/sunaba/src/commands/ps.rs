//! `sunaba ps`: which sandboxes there are.

use std::process::ExitCode;

use sunaba_types::{Clock, Sandbox, SystemClock, Timestamp};

use super::Context;
use crate::args::PsArgs;
use crate::failure::Outcome;
use crate::output;
use crate::render::{ago, clean_line, shorten, table};

/// Lists living sandboxes, or all.
pub(crate) async fn ps(context: &Context, args: &PsArgs) -> Outcome {
    let client = context.client().await?;
    let living = (!args.all).then_some("pending,creating,running,completing");
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
        let rows: Vec<Vec<String>> = sandboxes.iter().map(|sandbox| row(sandbox, now)).collect();
        output::out(&table(&["ID", "STATE", "AGE", "MODEL", "BRANCH", "PROMPT"], &rows));
    }
    Ok(ExitCode::SUCCESS)
}

fn row(sandbox: &Sandbox, now: Timestamp) -> Vec<String> {
    vec![
        sandbox.id.to_string(),
        sandbox.state.to_string(),
        ago(sandbox.created_at, now),
        shorten(&clean_line(&sandbox.model), 20),
        sandbox.branch_name.as_deref().map_or_else(|| "-".to_owned(), clean_line),
        shorten(&clean_line(&sandbox.prompt), 50),
    ]
}
