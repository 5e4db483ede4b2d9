//! `sunaba logs`: what happened in a sandbox, as a story or as JSON lines.

use std::process::ExitCode;

use super::{Context, live};
use crate::args::LogsArgs;
use crate::client::{Client, Event, resolve};
use crate::failure::Outcome;
use crate::output;
use crate::render::Story;

/// Shows the log of a sandbox; with `--follow` until it ends.
pub(crate) async fn logs(context: &Context, args: &LogsArgs) -> Outcome {
    let client = context.client().await?;
    let id = resolve(&client, &args.sandbox.id).await?;
    if args.raw {
        output::out(&client.raw_output(&id).await?);
        return Ok(ExitCode::SUCCESS);
    }
    let last = client.last_seq(&id).await?;
    let first = args.tail.map_or(1, |count| last.saturating_sub(i64::from(count)) + 1).max(1);
    if args.follow {
        let manners = live::Manners { after_seq: first - 1, ..live::Manners::reading() };
        live::watch(context, &id, manners).await?;
        return Ok(ExitCode::SUCCESS);
    }
    show_range(context, &client, &id, first, last).await?;
    Ok(ExitCode::SUCCESS)
}

async fn show_range(context: &Context, client: &Client, id: &str, first: i64, last: i64) -> Outcome<()> {
    let mut story = Story::new(context.colour);
    let mut next = first;
    while next <= last {
        let events = client.events_from(id, next).await?;
        let Some(newest) = events.last() else { break };
        next = newest.seq + 1;
        for event in events.iter().filter(|event| event.seq <= last) {
            show_event(context, &mut story, event);
        }
    }
    output::out(&story.finish_output());
    Ok(())
}

/// One event, for people or for programs.
pub(super) fn show_event(context: &Context, story: &mut Story, event: &Event) {
    if context.json {
        output::json(event);
    } else {
        output::out(&story.tell(event));
    }
}
