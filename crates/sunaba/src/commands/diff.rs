//! `sunaba diff`: what a sandbox changed, as a unified diff.

use std::process::ExitCode;

use super::Context;
use crate::client::resolve;
use crate::failure::Outcome;
use crate::output::{self, Colour};
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
    } else if context.colour == Colour::On {
        output::out(&coloured_diff(&text, "", context.colour));
    } else {
        output::out(&text);
    }
    Ok(ExitCode::SUCCESS)
}
