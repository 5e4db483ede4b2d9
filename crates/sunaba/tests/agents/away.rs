//! The server is away in the middle of a run: the agent goes on, and when the server is back nothing is missing.
//!
//! `SUNABA_AWAY_SECONDS` says for how long (10 unless told).
#![expect(clippy::print_stdout, reason = "how long it was away is part of what is shown")]

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::agent::Agent;
use crate::run::Run;
use crate::world::World;

const WORDS: &str = "please turn left";

/// The command ends while nobody is there; the call after it has to hold what it wrote, and the last one what was said
/// before.
const SCRIPT: &str = r#"
- when: {no_tools: true}
  text: A title
- text: I look around first.
  tools:
    - shell: "echo first; while [ ! -e go ]; do sleep 0.05; done; rm go; seq -f 'tick %g' 30; touch alone"
- expect:
    - request_contains: tick 30
  tools:
    - write: {path: /workspace/made.txt, content: "made\n"}
- expect:
    - request_contains: please turn left
  text: Done.
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_away_finds_nothing_missing() -> anyhow::Result<()> {
    let away = std::env::var("SUNABA_AWAY_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let away = Duration::from_secs(away);
    println!("away test: SUNABA_AWAY_SECONDS={}", away.as_secs());
    tokio::try_join!(
        without(Agent::Native, away),
        without(Agent::Claude, away),
        without(Agent::Codex, away)
    )?;
    Ok(())
}

async fn without(agent: Agent, away: Duration) -> anyhow::Result<()> {
    let world = World::start(agent).await?;
    let run = world.run(SCRIPT).await?;
    run.until_told("agent.tool_use", |_| true).await?;
    let said = run.say("user_message", WORDS).await?;
    run.until_taken(&said).await?;
    let before = run.log_so_far().await?;
    {
        let mut server = world.server.lock().await;
        server.kill().await?;
        let began = Instant::now();
        run.let_go()?;
        run.until_file("alone").await?;
        // This long nobody is there: what is tried, not a wait for something.
        tokio::time::sleep(away.saturating_sub(began.elapsed())).await;
        server.restart().await?;
    }
    let log = run.completed().await?;
    ensure!(log.starts_with(&before), "{agent:?}: what was told before is not what is told now");
    nothing_missing(&run, &log).await.with_context(|| format!("{agent:?}"))?;
    println!("{agent:?}: the server was away for {away:?}; {} events, nothing is missing", log.len());
    Ok(())
}

/// One conversation from its start to its end, with everything that the command wrote.
async fn nothing_missing(run: &Run<'_>, log: &[Value]) -> anyhow::Result<()> {
    let of = |name: &'static str| log.iter().filter(move |event| event["event_type"] == name);
    ensure!(of("agent.started").count() == 1, "it was started more than once");
    let results: Vec<_> =
        of("agent.tool_result").map(|event| event["event_data"]["result"].to_string()).collect();
    ensure!(results.iter().any(|text| text.contains("first") && text.contains("tick 30")), "{results:?}");
    ensure!(of("agent.message_injected").count() == 1, "the message was not consumed once");
    ensure!(of("agent.completed").count() == 1, "it did not end once");
    ensure!(run.branch_file("made.txt").await? == "made\n", "made.txt");
    Ok(())
}
