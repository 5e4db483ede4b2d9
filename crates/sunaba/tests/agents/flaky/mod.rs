//! The line between a sandbox and its server is bad: connections are refused, cut in the middle, slow, answered with
//! errors, not answered at all. The log is whole and in order all the same, and every message is consumed once.
//!
//! `SUNABA_FLAKY_SECONDS` says for how long (20 unless told), `SUNABA_SEED` repeats the faults of a run.
#![expect(clippy::print_stdout, reason = "the seed repeats a run, and the counts say what it was worth")]

mod line;

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use self::line::Line;
use crate::agent::Agent;
use crate::run::{Run, Said};
use crate::world::World;

/// Turns of a run, each with a command that writes for a second.
const TURNS: usize = 14;
const LINES: usize = 20;
/// What is said while they go on.
const WORDS: usize = 14;

fn word(number: usize) -> String {
    format!("word {number:02}.")
}

fn script() -> String {
    let mut script = String::new();
    for turn in 1..=TURNS {
        let wait = if turn == TURNS { "while [ ! -e go ]; do sleep 0.05; done; rm go; " } else { "" };
        let command = format!("{wait}for i in $(seq {LINES}); do echo turn {turn} line $i; sleep 0.04; done");
        script.push_str(&format!("- tools:\n    - shell: \"{command}\"\n"));
    }
    script.push_str("- expect:\n");
    for number in 1..=WORDS {
        script.push_str(&format!("    - request_contains: {}\n", word(number)));
    }
    script.push_str(
        "  tools:\n    - write: {path: /workspace/made.txt, content: \"made\\n\"}\n- text: Done.\n",
    );
    script
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_line_loses_and_reorders_nothing() -> anyhow::Result<()> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("SUNABA_SEED").unwrap_or_else(|| rand::rng().random());
    let budget = Duration::from_secs(number("SUNABA_FLAKY_SECONDS").unwrap_or(20));
    println!("flaky line: SUNABA_SEED={seed} SUNABA_FLAKY_SECONDS={}", budget.as_secs());
    let mut random = StdRng::seed_from_u64(seed);
    let world = World::start(Agent::Native).await?;
    let (began, mut runs) = (Instant::now(), 0);
    while runs == 0 || began.elapsed() < budget {
        one(&world, &mut random).await.with_context(|| format!("SUNABA_SEED={seed}, run {}", runs + 1))?;
        runs += 1;
    }
    Ok(())
}

/// One run over a bad line, which gets good for its last turns.
async fn one(world: &World, random: &mut StdRng) -> anyhow::Result<()> {
    let run = world.run_with(&script(), &json!({ "execution_config": { "max_turns": 100 } })).await?;
    run.until_told("agent.started", |_| true).await?;
    let door = world.data.path().join("sandboxes").join(&run.id).join("door");
    let line = Line::between(&door, StdRng::seed_from_u64(random.random()))?;
    // What was connected before is connected anew.
    run.kill_bridge().await?;
    let mut said = Vec::new();
    for number in 1..=WORDS {
        said.push(run.say("user_message", &word(number)).await?);
        tokio::time::sleep(Duration::from_millis(random.random_range(200..1400))).await;
    }
    line.heal();
    run.let_go()?;
    let log = run.completed().await?;
    output_is_whole(&log)?;
    said_once(&run, &log, &said).await?;
    ensure!(run.branch_file("made.txt").await? == "made\n", "made.txt");
    let faults = line.faults();
    println!("flaky line: {} events, {} messages, faults {faults:?}: nothing lost", log.len(), said.len());
    ensure!(faults.len() > 4, "too little went wrong to show anything: {faults:?}");
    Ok(())
}

/// Every piece of output begins where the one before ended, and the commands come in order.
fn output_is_whole(log: &[Value]) -> anyhow::Result<()> {
    let of = |name: &'static str| log.iter().filter(move |event| event["event_type"] == name);
    let calls: Vec<_> = of("agent.tool_use").filter(|event| event["event_data"]["tool"] == "Bash").collect();
    ensure!(calls.len() == TURNS, "{} commands were told of, {TURNS} ran", calls.len());
    for (turn, call) in (1..).zip(calls) {
        let id = &call["event_data"]["tool_use_id"];
        let mut output = String::new();
        for piece in of("agent.tool_output").filter(|event| event["event_data"]["tool_use_id"] == *id) {
            let data = &piece["event_data"];
            ensure!(data["offset"].as_u64() == Some(output.len() as u64), "a piece is missing: {piece}");
            output.push_str(data["chunk"].as_str().context("chunk")?);
        }
        let wanted: String = (1..=LINES).map(|line| format!("turn {turn} line {line}\n")).collect();
        ensure!(output == wanted, "command {turn} wrote {output:?}");
    }
    Ok(())
}

/// Every message entered the conversation once, in the order in which they were sent.
async fn said_once(run: &Run<'_>, log: &[Value], said: &[Said]) -> anyhow::Result<()> {
    let injected: Vec<_> = log
        .iter()
        .filter(|event| event["event_type"] == "agent.message_injected")
        .map(|event| event["event_data"]["message_id"].as_str().unwrap_or_default())
        .collect();
    let wanted: Vec<_> = said.iter().map(|one| one.id.as_str()).collect();
    ensure!(injected == wanted, "consumed {injected:?}, sent {wanted:?}");
    for one in said {
        let state = run.fate(&one.id).await?.0["state"].clone();
        ensure!(state == "consumed", "{} is {state}", one.id);
    }
    Ok(())
}
