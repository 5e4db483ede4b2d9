//! An agent is stopped in a command and in an answer; it says so only when nothing goes on any more.
#![expect(clippy::print_stdout, reason = "how long things take is part of what is shown")]

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::agent::Agent;
use crate::conformance::Findings;
use crate::processes::Mark;
use crate::run::{Run, Said, millis, time};
use crate::working::in_words;
use crate::world::{PROMPT, World};

/// Interrupt to idle, as promised, with room for a machine that builds beside it.
const SOON: Duration = Duration::from_secs(10);
/// By now every dialect has had words of the streamed answer, and none all of it.
const IN_THE_MIDDLE: Duration = Duration::from_millis(6500);
const DIFFERENTLY: &str = "stop, do it differently";
const MORE: &str = "tell me more";
const GO_ON: &str = "now go on";
/// The turns of the script that matter, from 1.
const WENT_ON: u64 = 2;
const STREAMED: u64 = 3;
const SILENT: u64 = 4;

/// How long each piece of the streamed answer takes. Google's dialect has words in every piece; the others have pieces
/// before them and after.
const fn piece_ms(agent: Agent) -> u32 {
    match agent {
        Agent::Gemini => 3000,
        Agent::Native | Agent::Claude | Agent::Codex | Agent::OpenCode | Agent::OpenHands => 1500,
    }
}

/// A command that does not want to end; an answer that does not begin; one that does not come to its end; work. The
/// command answers the task alone: an agent that is slow to stop is started again and may have forgotten it.
fn script(agent: Agent, background: &Mark, stubborn: &Mark) -> String {
    let piece_ms = piece_ms(agent);
    format!(
        r#"
- when: {{no_tools: true}}
  text: A title
- when: {{last_user_contains: "{GO_ON}"}}
  tools:
    - write: {{path: /workspace/made.txt, content: "made\n"}}
- when: {{last_user_contains: "{MORE}"}}
  text: There is a lot to be said about it, and it takes its time to say all of that.
  chunk_delay_ms: {piece_ms}
- when: {{last_user_contains: "{DIFFERENTLY}"}}
  text: I think.
  delay_ms: 600000
- when: {{last_user_contains: "{PROMPT}"}}
  tools:
    - shell: "{} & (trap '' INT TERM; {}; true)"
- text: Done.
"#,
        background.command(),
        stubborn.command(),
    )
}

pub(crate) async fn case(world: &World) -> anyhow::Result<Findings> {
    let (background, stubborn) = (Mark::new(), Mark::new());
    let run = world.run(&script(world.agent, &background, &stubborn)).await?;
    let runs = async || Ok((background.count() == 1 && stubborn.count() == 1).then_some(()));
    run.until("the command", runs).await?;
    let said = run.say("interrupt", DIFFERENTLY).await?;
    let (told, in_a_tool) = interrupted(&run, &said).await?;
    let in_a_tool = nothing_left(&background, &stubborn).and(soon("in a tool", &run, in_a_tool));

    let before_words = stopped_in_a_call(&run, SILENT).await?;
    run.say("user_message", MORE).await?;
    let in_a_stream = stopped_in_a_call(&run, STREAMED).await?;

    let before = run.calls().await?.len();
    let go_on = run.say("user_message", GO_ON).await?;
    run.completed().await?;
    let went_on = went_on(&run, &go_on, before).await;
    Ok(vec![
        ("interrupt_in_a_tool", in_words(in_a_tool.and(turned(&told)))),
        ("interrupt_before_words", in_words(before_words)),
        ("interrupt_in_a_stream", in_words(in_a_stream)),
        ("message_when_idle", in_words(went_on)),
    ])
}

/// Stops it in a model call, without a word; whether it was idle when it said so.
async fn stopped_in_a_call(run: &Run<'_>, turn: u64) -> anyhow::Result<anyhow::Result<()>> {
    run.until_calling().await?;
    if turn == STREAMED {
        tokio::time::sleep(IN_THE_MIDDLE).await;
    }
    let waits = run.told("agent.waiting").await?.len();
    let stop = run.say("interrupt", " ").await?;
    let (told, took) = interrupted(run, &stop).await?;
    let idle = idle(run, &told, turn).await;
    let waiting = async || Ok((run.told("agent.waiting").await?.len() > waits).then_some(()));
    run.until("its waiting for words", waiting).await?;
    let place = if turn == STREAMED { "in a stream" } else { "before the first word" };
    Ok(idle.and(soon(place, run, took)))
}

/// Waits until the interrupt is confirmed: the event, and how long that took.
async fn interrupted(run: &Run<'_>, said: &Said) -> anyhow::Result<(Value, u128)> {
    let of_it = |event: &Value| event["event_data"]["message_id"] == *said.id;
    let told = run.until_told("agent.interrupted", of_it).await?;
    let took = millis(said.at, time(&told["created_at"])?);
    Ok((told, took))
}

fn nothing_left(background: &Mark, stubborn: &Mark) -> anyhow::Result<()> {
    let left = (background.count(), stubborn.count());
    ensure!(left == (0, 0), "when the interrupt was confirmed {left:?} processes of the command were left");
    Ok(())
}

fn soon(place: &str, run: &Run<'_>, millis: u128) -> anyhow::Result<()> {
    println!("{:?}: interrupted {place}, seen idle after {millis} ms", run.world.agent);
    ensure!(millis < SOON.as_millis(), "the interrupt was confirmed after {millis} ms");
    Ok(())
}

fn turned(told: &Value) -> anyhow::Result<()> {
    ensure!(told["event_data"]["reason"] == DIFFERENTLY, "the reason is not what was said: {told}");
    Ok(())
}

/// That it is confirmed means that the gateway has no call any more, and has recorded the one that was cut.
async fn idle(run: &Run<'_>, told: &Value, turn: u64) -> anyhow::Result<()> {
    ensure!(!run.is_calling().await?, "when the interrupt was confirmed a model call was open");
    let calls = run.calls().await?;
    let cut = calls.iter().find(|call| call.turn == Some(turn)).context("the cut call is not recorded")?;
    ensure!(cut.error.is_some(), "the call was not cut: {cut:?}");
    let confirmed = told["seq"].as_u64().context("seq")?;
    ensure!(cut.seq < confirmed, "the interrupt was confirmed at {confirmed}, the call ended at {}", cut.seq);
    Ok(())
}

/// Nothing is asked of the model before somebody speaks, and then the words are in the next call.
async fn went_on(run: &Run<'_>, said: &Said, before: usize) -> anyhow::Result<()> {
    let calls = run.calls().await?;
    let next = calls.iter().find(|call| call.arrived >= said.at).context("no call came after the words")?;
    ensure!(next.turn == Some(WENT_ON), "the words were not in the next call: {calls:#?}");
    ensure!(calls.iter().filter(|call| call.arrived < said.at).count() == before, "it called unasked");
    let taken = millis(said.at, next.arrived);
    println!("{:?}: said to an idle agent, at the model after {taken} ms", run.world.agent);
    ensure!(run.fate(&said.id).await?.0["state"] == "consumed", "the words were not consumed");
    ensure!(run.branch_file("made.txt").await? == "made\n", "made.txt");
    Ok(())
}
