//! An agent works: its output is streamed, a message reaches it, what it made is on a branch, and it is paid for.
#![expect(clippy::print_stdout, reason = "how long things take is part of what is shown")]

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::conformance::{Expectations, Expected, Findings};
use crate::run::{Call, Run, Said, millis, time};
use crate::world::World;

/// Long for output that is streamed, short for output that is not: a command that runs tells nothing else.
const SOON: Duration = Duration::from_secs(2);
const WORDS: &str = "please turn left";
/// The turn of the script that answers them, from 1.
const HEARD: u64 = 3;

/// A command that waits for a sign; then the words have to be there, in the very next request.
fn script(expected: &Expectations) -> String {
    // An agent that may be late is not failed for it by the model; when it heard is looked at afterwards. One that
    // hears when it is done makes a call more, which costs nothing, so that the sum is the same.
    let heard = match expected["message_in_first_call"] {
        Expected::Holds => format!("expect: [request_contains: {WORDS}]"),
        Expected::Fails(_) | Expected::MayFail(_) => format!("when: {{request_contains: {WORDS}, times: 1}}"),
    };
    format!(
        r##"
- when: {{no_tools: true}}
  text: A title
- text: I look around first.
  usage: {{input_tokens: 1000, output_tokens: 100}}
  tools:
    - shell: "echo first; while [ ! -e go ]; do sleep 0.05; done; rm go; echo second"
- {heard}
  text: I heard you.
  usage: {{input_tokens: 2000, output_tokens: 200}}
  tools:
    - write: {{path: /workspace/heard.txt, content: "left\n"}}
- usage: {{input_tokens: 3000, output_tokens: 300}}
  tools:
    - read: /workspace/README.md
- usage: {{input_tokens: 4000, output_tokens: 400}}
  tools:
    - edit: {{path: /workspace/README.md, old: "# worked on", new: "# edited"}}
- usage: {{input_tokens: 5000, output_tokens: 500}}
  text: Done.
- usage: {{input_tokens: 0, output_tokens: 0}}
  text: Done, with what was said at the end too.
"##
    )
}

pub(crate) async fn case(world: &World, expected: &Expectations) -> anyhow::Result<Findings> {
    let run = world.run(&script(expected)).await?;
    let used = run.until_told("agent.tool_use", |_| true).await?;
    let streamed = streamed(&run, &used).await;
    let said = run.say("user_message", WORDS).await?;
    run.until_taken(&said).await?;
    let let_go = run.let_go()?;
    let log = run.completed().await?;
    ended_by_itself(&log)?;
    let calls = run.calls().await?;
    began(&run, &log, &calls)?;
    let heard = heard(&run, &calls, &said).await;
    if let Some(call) = calls.iter().find(|call| call.turn == Some(HEARD)) {
        let taken = millis(let_go, call.arrived);
        println!("{:?}: said during a tool, at the model {taken} ms after that tool was let go", world.agent);
    }
    Ok(vec![
        ("streamed_output", in_words(streamed)),
        ("message_in_first_call", in_words(heard)),
        ("edits_on_branch", in_words(on_branch(&run, &log).await)),
        ("usage_and_cost", in_words(paid(&run, &log).await)),
    ])
}

/// How long it took from its start to its first question to the model.
fn began(run: &Run<'_>, log: &[Value], calls: &[Call]) -> anyhow::Result<()> {
    let started = log.iter().find(|event| event["event_type"] == "agent.started").context("its start")?;
    let first = calls.first().context("a call")?;
    let taken = millis(time(&started["created_at"])?, first.arrived);
    println!("{:?}: started, at the model after {taken} ms", run.world.agent);
    Ok(())
}

/// The command is not one that the agent went on without.
fn ended_by_itself(log: &[Value]) -> anyhow::Result<()> {
    let result = log.iter().find(|event| event["event_type"] == "agent.tool_result");
    let result = result.context("the command's result")?["event_data"]["result"].to_string();
    ensure!(result.contains(r"first\nsecond"), "the agent went on before the command's end: {result}");
    Ok(())
}

pub(crate) fn in_words(outcome: anyhow::Result<()>) -> Result<(), String> {
    outcome.map_err(|error| format!("{error:#}"))
}

/// Whether what the command wrote first is told while it runs.
async fn streamed(run: &Run<'_>, used: &Value) -> anyhow::Result<()> {
    let call = &used["event_data"]["tool_use_id"];
    let first = |event: &Value| {
        let data = &event["event_data"];
        data["tool_use_id"] == *call && data["chunk"].as_str().is_some_and(|text| text.contains("first"))
    };
    let told = tokio::time::timeout(SOON, run.until_told("agent.tool_output", first));
    told.await.context("the output was not told while the command ran")?.map(drop)
}

/// Whether the first call that arrived after the hand-over has the words, and the history says so.
async fn heard(run: &Run<'_>, calls: &[Call], said: &Said) -> anyhow::Result<()> {
    let fate = run.fate(&said.id).await?;
    ensure!(fate.0["state"] == "consumed", "the message is {}", fate.0["state"]);
    let handed_over = fate.time("handed_over_at")?;
    let first = calls.iter().find(|call| call.arrived > handed_over && call.turn != Some(1));
    let first = first.context("no call came after the hand-over")?;
    ensure!(
        first.turn == Some(HEARD),
        "the words were not in the first call after their hand-over: {calls:#?}"
    );
    let consumed = fate.0["consumed_seq"].as_u64().context("consumed_seq")?;
    ensure!(consumed > 0, "consumed at {consumed}");
    Ok(())
}

async fn on_branch(run: &Run<'_>, log: &[Value]) -> anyhow::Result<()> {
    ensure!(run.branch_file("heard.txt").await? == "left\n", "heard.txt");
    ensure!(run.branch_file("README.md").await? == "# edited\n", "README.md");
    for file in ["heard.txt", "README.md"] {
        let edits = log.iter().filter(|event| {
            event["event_type"] == "agent.file_edited" && event["event_data"]["file_path"] == file
        });
        ensure!(edits.count() == 1, "the edit of {file} was not told once");
    }
    Ok(())
}

/// Every call is counted at the gateway, and the agent's own sum is the same.
async fn paid(run: &Run<'_>, log: &[Value]) -> anyhow::Result<()> {
    let usage = run.get("/usage").await?["model"].clone();
    let (input, output) = (15_000, 1_500);
    ensure!(
        usage["input_tokens"] == input && usage["output_tokens"] == output,
        "the gateway counted something else: {usage}"
    );
    let cost = usage["cost_usd"].as_f64().context("cost_usd")?;
    ensure!((cost - 0.0675).abs() < 1e-9, "it cost {cost}");
    let completed = log.iter().find(|event| event["event_type"] == "agent.completed").context("its end")?;
    let told = &completed["event_data"];
    ensure!(
        told["input_tokens"] == input && told["output_tokens"] == output,
        "the agent counted something else: {} in, {} out",
        told["input_tokens"],
        told["output_tokens"]
    );
    Ok(())
}
