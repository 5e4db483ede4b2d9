//! `sunaba diff`: what a sandbox changed, as a unified diff.

use std::process::ExitCode;

use super::Context;
use crate::client::resolve;
use crate::failure::Outcome;
use crate::output;
use crate::render::{coloured_diff, diffstat};

/// Shows the diff; piped it is the diff itself, byte for byte, so that `git apply` takes it.
pub(crate) async fn diff(context: &Context, word: &str) -> Outcome {
    let client = context.client().await?;
    let id = resolve(&client, word).await?;
    let text = client.diff(&id).await?;
    if context.json {
        let files: Vec<_> = diffstat(&text)
            .into_iter()
            .map(
                |stat| serde_json::json!({ "path": stat.path, "added": stat.added, "removed": stat.removed }),
            )
            .collect();
        output::json(&serde_json::json!({ "sandbox_id": id, "diff": text, "files": files }));
    } else if text.is_empty() {
        output::note("nothing was changed");
    } else if output::is_terminal() {
        // Plain or coloured: a terminal must not obey what stands in a file.
        output::out(&coloured_diff(&text, "", context.colour));
    } else {
        output::out(&text);
    }
    Ok(ExitCode::SUCCESS)
}
