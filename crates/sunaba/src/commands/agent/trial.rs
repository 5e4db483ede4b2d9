//! `sunaba agent test`: one agent in a real sandbox of the real server. Only the model's words are canned.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use sunaba_types::{MessageType, SandboxState};
use tokio::time::{Instant, timeout};

use super::super::{Context, run};
use super::checks::{Act, Check, INTERRUPT, MESSAGE, Watch};
use super::list::check;
use crate::args::{AgentTestArgs, RunArgs, RunTerms};
use crate::client::{Client, Follower, News, Place, ensure_server};
use crate::demo;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::{clean_line, table};

const SCRIPT: &str = include_str!("script.yaml");
const PROMPT: &str = "Show that you work here";
/// How long a sandbox that is told to end may take.
const END_WITHIN: Duration = Duration::from_secs(30);

/// Tries an agent and says what worked.
pub(crate) async fn test(context: &Context, args: &AgentTestArgs) -> Outcome {
    let Place::DataDir { dir, .. } = &context.place else {
        return Err(Failure::usage(
            "agent test makes a repository beside the server's data; run it on the server's machine, with --data",
        ));
    };
    let client = ensure_server(&context.place).await?;
    check(&client.agents().await?, &args.name, args.provider.as_deref())?;
    let request = run::Request::read(&what_to_run(dir, args).await?).await?;
    let asked = Instant::now();
    let given = run::give(&client, request).await?;
    let id = given.sandbox.id.as_str();
    if !context.json {
        output::note(&format!("{} works in {id}", clean_line(&args.name)));
    }
    let checks = follow(context, &client, id, asked, args).await?;
    Ok(report(context, args, id, &checks))
}

/// The repository and the script, and everything else as `run` takes it.
async fn what_to_run(data: &Path, args: &AgentTestArgs) -> Outcome<RunArgs> {
    let dir = data.join("agent-test");
    let repo: PathBuf = demo::repository(&dir.join("agent-test")).await?;
    let script = dir.join("script.yaml");
    std::fs::write(&script, SCRIPT)?;
    Ok(RunArgs {
        repo,
        prompt: PROMPT.to_owned(),
        model: Some(format!("script:{}", script.display())),
        title: Some(format!("Try the agent {}", args.name)),
        detach: false,
        stdin: false,
        terms: RunTerms {
            provider: args.provider.clone(),
            runtime: Some(args.name.clone()),
            timeout: Some(args.timeout),
            once: true,
            ..RunTerms::default()
        },
    })
}

async fn follow(
    context: &Context,
    client: &Client,
    id: &str,
    asked: Instant,
    args: &AgentTestArgs,
) -> Outcome<Vec<Check>> {
    let mut watch = Watch::new(asked);
    let patience = Duration::from_secs(u64::try_from(args.timeout).unwrap_or(0));
    let ended = timeout(patience, steer(context, client, id, &mut watch)).await;
    let ended: Option<SandboxState> = match ended {
        Ok(ended) => ended?,
        Err(_) => {
            // What came of it is told either way; it must not go on behind our back.
            let _ = timeout(END_WITHIN, client.stop(id)).await;
            None
        }
    };
    let sandbox = client.sandbox(id).await?;
    let diff = client.diff(id, &[]).await.ok();
    Ok(watch.verdict(ended, sandbox.reason.as_deref(), diff.as_deref()))
}

/// Speaks when it is time to, until the sandbox has ended.
async fn steer(
    context: &Context,
    client: &Client,
    id: &str,
    watch: &mut Watch,
) -> Outcome<Option<SandboxState>> {
    let mut follower = Follower::start(context.place.clone(), id.to_owned(), 0);
    while let Some(news) = follower.next().await {
        match news {
            News::Event(event) => {
                if let Some(act) = watch.see(&event, Instant::now()) {
                    let (text, kind) = match act {
                        Act::Message => (MESSAGE, MessageType::UserMessage),
                        Act::Interrupt => (INTERRUPT, MessageType::Interrupt),
                    };
                    let began = Instant::now();
                    let sent = client.send(id, text, kind).await?;
                    watch.sent(act, sent.message_id.to_string(), began);
                }
            }
            News::Lost | News::Back => {}
            News::Ended(state) => return Ok(Some(state)),
            News::Over(failure) => return Err(failure),
        }
    }
    Ok(None)
}

fn report(context: &Context, args: &AgentTestArgs, id: &str, checks: &[Check]) -> ExitCode {
    let ok = checks.iter().all(|check| check.ok);
    if context.json {
        output::json(&json!({ "agent": args.name, "sandbox_id": id, "ok": ok, "checks": checks }));
    } else {
        let rows: Vec<Vec<String>> = checks.iter().map(row).collect();
        output::out(&table(&["CHECK", "RESULT", "TIME", ""], &rows));
        let name = clean_line(&args.name);
        if ok {
            output::line(&format!("{name} works here"));
        } else {
            output::line(&format!("{name} does not work here; {}", context.hint(&format!("logs {id}"))));
        }
    }
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn row(check: &Check) -> Vec<String> {
    vec![
        check.name.to_owned(),
        if check.ok { "ok" } else { "FAILED" }.to_owned(),
        check.ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms")),
        clean_line(&check.detail),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_can_be_played_and_waits_for_what_is_said() {
        let script = sunaba_gateway::Script::parse(SCRIPT.as_bytes()).unwrap();
        assert_eq!(script.turn_count(), 6);
        assert!(SCRIPT.contains(MESSAGE) && SCRIPT.contains(INTERRUPT));
    }
}
