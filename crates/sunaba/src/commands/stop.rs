//! `sunaba stop`: end sandboxes.

use std::process::ExitCode;

use super::Context;
use crate::args::StopArgs;
use crate::client::{Client, LIVING, Sandbox, resolve};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::state_word;

/// How many are asked for at once when all are to be ended, and how often.
const PAGE: u32 = 500;
const PAGES: usize = 100;

/// Ends what is named; what has ended already stays as it is.
pub(crate) async fn stop(context: &Context, args: &StopArgs) -> Outcome {
    let client = context.client().await?;
    if args.all {
        return all(context, &client).await;
    }
    // All of them first: a wrong word ends nothing.
    let mut ids = Vec::new();
    for word in &args.ids {
        ids.push(resolve(&client, word).await?);
    }
    let mut ended = Vec::new();
    for id in &ids {
        ended.push(end(context, &client, id).await?);
    }
    match ended.as_slice() {
        _ if !context.json => {}
        [one] => output::json(one),
        several => output::json(&several),
    }
    Ok(ExitCode::SUCCESS)
}

async fn end(context: &Context, client: &Client, id: &str) -> Outcome<Sandbox> {
    let before = client.sandbox(id).await?;
    let has_ended = before.state.is_terminal();
    let sandbox = if has_ended { before } else { client.stop(id).await? };
    say(context, &sandbox, if has_ended { "already " } else { "" });
    Ok(sandbox)
}

/// Ends what lives, also what begins meanwhile.
async fn all(context: &Context, client: &Client) -> Outcome {
    let mut ended = Vec::new();
    for _ in 0..PAGES {
        let living = client.sandboxes(Some(LIVING), PAGE).await?;
        if living.is_empty() {
            if context.json {
                output::json(&ended);
            } else if ended.is_empty() {
                output::note("no sandbox is running");
            }
            return Ok(ExitCode::SUCCESS);
        }
        for sandbox in living {
            let sandbox = client.stop(sandbox.id.as_str()).await?;
            say(context, &sandbox, "");
            ended.push(sandbox);
        }
    }
    Err(Failure::other(format!("{} were ended, and new ones begin all the time", ended.len())))
}

fn say(context: &Context, sandbox: &Sandbox, already: &str) {
    if !context.json {
        output::line(&format!("{} {already}{}", sandbox.id, state_word(sandbox.state, context.colour)));
    }
}
