//! `sunaba attach`: take up the story of a sandbox where it is, and talk to its agent.

use super::{Context, live, summary};
use crate::client::resolve;
use crate::failure::Outcome;
use crate::output;

/// Follows a sandbox from its beginning.
pub(crate) async fn attach(context: &Context, word: &str, stdin: bool) -> Outcome {
    let client = context.client().await?;
    let id = resolve(&client, word).await?;
    if !context.json {
        output::note(&format!("attached to {id}"));
    }
    let ended = live::watch(context, &id, live::Manners::conversation(stdin)).await?;
    summary::finish(context, &id, ended, None).await
}
