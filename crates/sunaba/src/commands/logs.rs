//! `sunaba logs`: what happened in a sandbox, as a story or as JSON lines.

use std::ops::RangeInclusive;
use std::process::ExitCode;

use super::{Context, live};
use crate::args::LogsArgs;
use crate::client::{Client, Event, resolve};
use crate::failure::Outcome;
use crate::output;
use crate::render::{Look, Story, clean};

/// Shows the log of a sandbox; with `--follow` until it ends.
pub(crate) async fn logs(context: &Context, args: &LogsArgs) -> Outcome {
    let client = context.client().await?;
    let id = resolve(&client, &args.sandbox.id).await?;
    if args.raw {
        show_raw(context, &id, &client.raw_output(&id).await?);
        return Ok(ExitCode::SUCCESS);
    }
    let last = client.last_seq(&id).await?;
    let first = args.tail.map_or(1, |count| last.saturating_sub(i64::from(count)) + 1).max(1);
    if args.follow {
        let manners = live::Manners { after_seq: first - 1, full: args.full, ..live::Manners::reading() };
        live::watch(context, &id, manners).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut story = Story::new(Look {
        full: args.full,
        ..Look::for_stdout(context.colour, context.hint(&format!("logs {id} --full")))
    });
    if !context.json {
        for message in client.message_history(&id).await? {
            story.sender_is(message.id.as_str(), &message.sender);
        }
    }
    show_range(context, &client, (&id, &mut story), first..=last).await?;
    Ok(ExitCode::SUCCESS)
}

/// What its processes printed; a terminal must not obey it.
fn show_raw(context: &Context, id: &str, text: &str) {
    if context.json {
        output::json(&serde_json::json!({ "sandbox_id": id, "output": text }));
    } else if text.is_empty() {
        output::note("its processes printed nothing (the story is in `sunaba logs` without --raw)");
    } else if output::is_terminal() {
        output::out(&clean(text));
    } else {
        output::out(text);
    }
}

async fn show_range(
    context: &Context,
    client: &Client,
    (id, story): (&str, &mut Story),
    places: RangeInclusive<i64>,
) -> Outcome<()> {
    let (mut next, last) = places.into_inner();
    while next <= last {
        let events = client.events_from(id, next).await?;
        let Some(newest) = events.last() else { break };
        next = newest.seq + 1;
        for event in events.iter().filter(|event| event.seq <= last) {
            show_event(context, story, event);
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
