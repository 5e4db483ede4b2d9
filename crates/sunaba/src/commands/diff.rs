//! `sunaba diff`: what a sandbox changed, as a unified diff.

use std::process::ExitCode;

use super::Context;
use crate::args::DiffArgs;
use crate::client::resolve;
use crate::failure::Outcome;
use crate::output;
use crate::render::coloured_diff;

/// Shows the diff; piped it is the diff itself, byte for byte, so that `git apply` takes it.
pub(crate) async fn diff(context: &Context, args: &DiffArgs) -> Outcome {
    let client = context.client().await?;
    let id = resolve(&client, &args.id).await?;
    let between =
        [("from", args.from.as_deref()), ("to", args.to.as_deref()), ("path", args.path.as_deref())];
    if context.json {
        let mut shown = client.diff_summary(&id, &between).await?;
        // What earlier versions called them.
        for file in shown["files"].as_array_mut().into_iter().flatten() {
            file["added"] = file["lines_added"].clone();
            file["removed"] = file["lines_removed"].clone();
        }
        output::json(&shown);
        return Ok(ExitCode::SUCCESS);
    }
    let text = client.diff(&id, &between).await?;
    if text.is_empty() {
        output::note("nothing was changed");
    } else if output::is_terminal() {
        // Plain or coloured: a terminal must not obey what stands in a file.
        output::out(&coloured_diff(&text, "", context.colour));
    } else {
        output::out(&text);
    }
    Ok(ExitCode::SUCCESS)
}
