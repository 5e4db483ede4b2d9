//! Kill -9 in the middle of a run, of everything that carries it in turn: the log is whole, what was acknowledged is in
//! it, and the run ends as promised.
#![expect(clippy::print_stdout, reason = "what was killed is part of what is shown")]

use std::path::PathBuf;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::agent::{Agent, not_tried};
use crate::processes::Part;
use crate::run::Run;
use crate::world::World;

const BRIDGE: Part = Part::Worker("bridge");
const WORKER: Part = Part::Worker("work");
const WORDS: &str = "please turn left";
/// The turn of the script that takes its time, from 1.
const SLOW: u64 = 4;

/// Something is made; a command waits for a sign; an answer takes its time; something else is made.
const SCRIPT: &str = r#"
- when: {no_tools: true}
  text: A title
- tools:
    - write: {path: /workspace/early.txt, content: "early\n"}
- tools:
    - shell: "echo first; while [ ! -e go ]; do sleep 0.05; done; rm go; echo second"
- expect:
    - request_contains: please turn left
    - request_contains: second
  text: I have to think about that for a moment.
  chunk_delay_ms: 2000
  tools:
    - write: {path: /workspace/late.txt, content: "late\n"}
- text: Done.
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_bridge_and_server_do_not_end_a_run() -> anyhow::Result<()> {
    tokio::try_join!(carried_on(Agent::Native), carried_on(Agent::Claude), carried_on(Agent::Codex))?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_worker_or_agent_is_told_and_leaves_what_it_had_done() -> anyhow::Result<()> {
    tokio::try_join!(ended(Agent::Native), ended(Agent::Claude), ended(Agent::Codex))?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_around_openhands() -> anyhow::Result<()> {
    if let Some(why) = not_tried(Agent::OpenHands) {
        sunaba_testkit::left_out("kills around OpenHands in a sandbox", &why);
        return Ok(());
    }
    carried_on(Agent::OpenHands).await?;
    ended(Agent::OpenHands).await
}

async fn ended(agent: Agent) -> anyhow::Result<()> {
    let world = World::start(agent).await?;
    let (worker, program) = tokio::join!(worker_killed(&world), program_killed(&world));
    worker.with_context(|| format!("{agent:?}: its worker"))?;
    program.with_context(|| format!("{agent:?}: its program"))
}

/// What the worker had told is there, and the server says how it ended.
async fn worker_killed(world: &World) -> anyhow::Result<()> {
    let (run, acknowledged) = in_the_middle(world).await?;
    WORKER.kill(&run.directory())?;
    let log = run.over("failed").await?;
    ensure!(log.starts_with(&acknowledged), "what was acknowledged is not there any more");
    let row = run.get("").await?;
    let why = row["reason"].as_str().context("reason")?;
    ensure!(why.contains("killed by signal 9"), "it does not say how it ended: {why}");
    println!("{:?}: its worker was killed, and the server said: {why}", world.agent);
    Ok(())
}

/// What it had made is kept, and the worker says how it ended.
async fn program_killed(world: &World) -> anyhow::Result<()> {
    let Some(program) = world.agent.program() else { return Ok(()) };
    let (run, acknowledged) = in_the_middle(world).await?;
    Part::Program(program).kill(&run.directory())?;
    run.over("failed").await?;
    // The state is told a moment before the reason.
    run.until_told("agent.failed", |_| true).await?;
    let log = run.log_so_far().await?;
    ensure!(log.starts_with(&acknowledged), "what was acknowledged is not there any more");
    let told = |name: &str| {
        let found = log.iter().find(|event| event["event_type"] == name).map(|event| &event["event_data"]);
        found.with_context(|| format!("no {name}: {}", log_in_short(&log)))
    };
    ensure!(told("agent.stream_error")?["error_type"] == "sigkill", "{}", told("agent.stream_error")?);
    ensure!(told("agent.failed")?["error_class"] == "crashed", "{}", told("agent.failed")?);
    let produced = told("agent.completed")?;
    ensure!(produced["success"] == false && produced["code_pushed"] == true, "{produced}");
    ensure!(produced["changed_files"].to_string().contains("early.txt"), "{produced}");
    let why = &told("agent.failed")?["error"];
    ensure!(!why.to_string().contains("Warning"), "something else is told as the reason: {why}");
    println!("{:?}: its program was killed, and the worker said: {why}", world.agent);
    Ok(())
}

/// A run whose command waits, and its log by then.
async fn in_the_middle(world: &World) -> anyhow::Result<(Run<'_>, Vec<Value>)> {
    let run = world.run(SCRIPT).await?;
    run.until_told("agent.tool_use", is_command).await?;
    let log = run.log_so_far().await?;
    Ok((run, log))
}

impl Run<'_> {
    fn directory(&self) -> PathBuf {
        self.world.data.path().join("sandboxes").join(&self.id)
    }

    /// Kills its bridge and waits for the next one.
    pub(crate) async fn kill_bridge(&self) -> anyhow::Result<()> {
        let directory = self.directory();
        let killed = BRIDGE.kill(&directory)?;
        let another =
            async || Ok(BRIDGE.find(&directory).iter().any(|pid| !killed.contains(pid)).then_some(()));
        self.until("another bridge", another).await
    }
}

/// Bridge and server are killed while a command runs and while the model speaks.
async fn carried_on(agent: Agent) -> anyhow::Result<()> {
    let world = World::start(agent).await?;
    let run = world.run(SCRIPT).await?;
    run.until_told("agent.tool_use", is_command).await?;
    run.kill_bridge().await?;
    let said = run.say("user_message", WORDS).await?;
    run.until_taken(&said).await?;
    let acknowledged = run.log_so_far().await?;
    world.server.lock().await.kill_and_restart().await?;
    run.let_go()?;
    run.until_calling().await?;
    run.kill_bridge().await?;
    // The call that was cut is over for the gateway; the agent makes it once more.
    let cut = async || Ok(run.calls().await?.into_iter().find(|call| call.turn == Some(SLOW)));
    run.until("the end of the cut call", cut).await?;
    run.until_calling().await?;
    world.server.lock().await.kill_and_restart().await?;
    let log = run.completed().await?;
    ensure!(log.starts_with(&acknowledged), "{agent:?}: what was acknowledged is not there any more");
    one_story(&run, &log).await.with_context(|| format!("{agent:?}\n{}", log_in_short(&log)))?;
    println!("{agent:?}: two bridges and two servers killed; {} events, nothing is missing", log.len());
    Ok(())
}

fn is_command(event: &Value) -> bool {
    event["event_data"]["input"]["command"].as_str().is_some_and(|command| command.contains("echo first"))
}

/// One conversation from its start to its end, and all that it made.
async fn one_story(run: &Run<'_>, log: &[Value]) -> anyhow::Result<()> {
    let of = |name: &'static str| log.iter().filter(move |event| event["event_type"] == name);
    ensure!(of("agent.started").count() == 1, "it was started more than once");
    ensure!(of("agent.message_injected").count() == 1, "the message was not consumed once");
    ensure!(of("agent.completed").count() == 1, "it did not end once");
    let commands = of("agent.tool_completed").filter(|event| {
        event["event_data"]["tool_input"]["command"].as_str().is_some_and(|text| text.contains("echo first"))
    });
    ensure!(commands.count() == 1, "the command was not told once");
    for (file, content) in [("early.txt", "early\n"), ("late.txt", "late\n")] {
        ensure!(run.branch_file(file).await? == content, "{file}");
    }
    Ok(())
}

fn log_in_short(log: &[Value]) -> String {
    let types: Vec<_> = log.iter().map(|event| event["event_type"].as_str().unwrap_or_default()).collect();
    types.join(" ")
}
