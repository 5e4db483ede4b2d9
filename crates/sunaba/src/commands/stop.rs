//! `sunaba stop`: end a sandbox.

use std::process::ExitCode;

use super::Context;
use crate::client::resolve;
use crate::failure::Outcome;
use crate::output;
use crate::render::state_word;

/// Ends it; one that has ended already stays as it is.
pub(crate) async fn stop(context: &Context, word: &str) -> Outcome {
    let client = context.client().await?;
    let id = resolve(&client, word).await?;
    let before = client.sandbox(&id).await?;
    let has_ended = before.state.is_terminal();
    let sandbox = if has_ended { before } else { client.stop(&id).await? };
    let word = if has_ended { "already " } else { "" };
    if context.json {
        output::json(&sandbox);
    } else {
        output::line(&format!("{id} {word}{}", state_word(sandbox.state, context.colour)));
    }
    Ok(ExitCode::SUCCESS)
}
