//! `sunaba demo`: the main job, start to end, on a small made-up repository.
//!
//! Only the model's words are canned: the server, the sandbox, the agent, the tests it runs, the
//! message that reaches it while it works and the branch it leaves are real. The message is sent by
//! this program in the place of a person, at the moment the agent starts the tests; the script
//! refuses to go on if the model is not told it in its next request.

mod repository;
mod server;

pub(crate) use repository::make as repository;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::args::{DemoArgs, RunArgs, RunTerms};
use crate::client::Event;
use crate::commands::live::{Ended, Manners, Prompter, watch};
use crate::commands::{Context, hint, run, summary};
use crate::failure::{CANCELLED, Outcome};
use crate::output;
use crate::render::coloured_diff;

use self::server::{DemoServer, Interrupts};

const SCRIPT: &str = include_str!("script.yaml");
const PROMPT: &str = "Add the --shout flag that the tests want to greet.sh";
/// What is said to the agent while it runs the tests.
const STEERING: &str = "Please also add a --bye flag that says Goodbye, with a check for it.";
/// The command during which it is said.
const TEST_COMMAND: &str = "sh test.sh";

/// Runs the demonstration.
pub(crate) async fn demo(args: &DemoArgs) -> Outcome {
    let mut interrupts = Interrupts::listen()?;
    let dir = directory(args.dir.as_deref())?;
    let repo = repository::make(&dir.join("greeter")).await?;
    let script = dir.join("script.yaml");
    std::fs::write(&script, SCRIPT)?;
    let mut server = DemoServer::start(&dir.join("data")).await?;
    output::note(&format!("server      {}", server.url()));
    output::note(&format!("repository  {}", repo.display()));

    let context = Context::for_data_dir(dir.join("data"));
    let finished = tokio::select! {
        outcome = Box::pin(work(&context, &repo, &script)) => Some(outcome),
        () = interrupts.next() => None,
    };
    let Some(outcome) = finished else {
        output::note("interrupted; ending the sandbox and the server");
        server.abandon().await?;
        return Ok(ExitCode::from(CANCELLED));
    };
    if outcome.is_err() || args.exit {
        server.stop().await?;
        let serve = hint(Some(&dir.join("data")), "serve");
        output::note(&format!("\nthe server has stopped; for a further look start it again: {serve}"));
        return outcome;
    }
    output::note(&format!("\nthe server stays up at {} (Ctrl-C ends it)", server.url()));
    output::note(&format!("try: {}", context.hint("show last")));
    server.stay_up(&mut interrupts).await?;
    outcome
}

async fn work(context: &Context, repo: &Path, script: &Path) -> Outcome {
    let args = RunArgs {
        repo: repo.to_owned(),
        prompt: PROMPT.to_owned(),
        model: Some(format!("script:{}", script.display())),
        title: None,
        detach: false,
        stdin: false,
        terms: RunTerms { once: true, ..RunTerms::default() },
    };
    output::note(&format!("task        {PROMPT}\n"));
    let client = context.client().await?;
    let given = run::give(&client, run::Request::read(&args).await?).await?;
    let id = given.sandbox.id.as_str();
    let manners = Manners { prompter: Some(steer_once()), ..Manners::reading() };
    let ended = watch(context, id, manners).await?;
    let code = summary::finish(context, id, ended, Some(repo)).await?;
    if matches!(ended, Ended::In(sunaba_types::SandboxState::Completed)) {
        let diff = client.diff(id, &[]).await?;
        output::out(&format!("\n{}", coloured_diff(&diff, "  ", context.colour)));
    }
    Ok(code)
}

/// Says [`STEERING`] when the agent first runs the tests.
fn steer_once() -> Prompter {
    let mut said = false;
    Box::new(move |event: &Event| {
        if said || !is_test_run(event) {
            return None;
        }
        said = true;
        Some(STEERING.to_owned())
    })
}

fn is_test_run(event: &Event) -> bool {
    let command = event.event_data.pointer("/input/command").and_then(serde_json::Value::as_str);
    event.event_type == "agent.tool_use" && command == Some(TEST_COMMAND)
}

/// Where the demonstration lives: a directory for it alone, in which earlier ones are left as they are.
fn directory(wanted: Option<&Path>) -> Outcome<PathBuf> {
    let dir = match wanted {
        Some(dir) => std::path::absolute(dir)?,
        None => std::env::temp_dir().join(format!("sunaba-demo-{}", std::process::id())),
    };
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_can_be_played() {
        let script = sunaba_gateway::Script::parse(SCRIPT.as_bytes()).unwrap();
        assert_eq!(script.turn_count(), 6);
    }

    #[test]
    fn the_message_is_sent_once_at_the_tests() {
        let event = |command: &str| Event {
            id: "e".into(),
            seq: 1,
            sandbox_id: "s".into(),
            event_type: "agent.tool_use".into(),
            event_data: serde_json::json!({ "tool": "Bash", "input": { "command": command } }),
            source: "agent".into(),
            created_at: "2026-01-01T00:00:00Z".parse().unwrap(),
        };
        let mut prompter = steer_once();
        assert_eq!(prompter(&event("ls")), None);
        assert_eq!(prompter(&event(TEST_COMMAND)).as_deref(), Some(STEERING));
        assert_eq!(prompter(&event(TEST_COMMAND)), None);
    }
}
