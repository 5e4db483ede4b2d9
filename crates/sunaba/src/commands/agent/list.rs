//! `sunaba agent list`: every agent that is known, whether it is installed, and what it can do.

use std::process::ExitCode;

use serde_json::Value;

use super::super::Context;
use crate::client::ensure_server;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::{clean_line, table};

/// Lists them.
pub(crate) async fn list(context: &Context) -> Outcome {
    let answer = ensure_server(&context.place).await?.agents().await?;
    if context.json {
        output::json(&answer);
    } else {
        output::out(&shown(&answer));
    }
    Ok(ExitCode::SUCCESS)
}

fn agents(answer: &Value) -> &[Value] {
    answer.get("agents").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

fn shown(answer: &Value) -> String {
    let columns =
        ["NAME", "INSTALLED", "TESTED", "MESSAGE", "INTERRUPT", "ASKS", "RESUME", "FORK", "HELPERS"];
    let default = text(answer, "default_runtime").unwrap_or_default();
    let rows: Vec<Vec<String>> = agents(answer).iter().map(|agent| row(agent, default)).collect();
    let mut shown = table(&columns, &rows);
    for agent in agents(answer).iter().filter(|agent| installed(agent, None) == Some(false)) {
        shown.push_str(&format!("\n{}", clean_line(&how_to_install(agent, None))));
    }
    shown.push_str("\n`sunaba agent test NAME` tries one in a sandbox; docs/agents.md says more\n");
    shown
}

fn row(agent: &Value, default: &str) -> Vec<String> {
    let name = text(agent, "name").unwrap_or("-");
    let mark = if name == default { " (default)" } else { "" };
    let can = |what: &str| match agent.pointer(&format!("/capabilities/{what}")).and_then(Value::as_bool) {
        Some(true) => "yes".to_owned(),
        Some(false) => "no".to_owned(),
        None => "-".to_owned(),
    };
    let message = match agent.pointer("/capabilities/message").and_then(Value::as_str) {
        Some("next_call") => "next model call",
        Some("next_call_or_later") => "next model call, or later",
        Some("end_of_turn") => "end of turn",
        _ => "-",
    };
    vec![
        clean_line(&format!("{name}{mark}")),
        clean_line(&found(agent)),
        clean_line(text(agent, "tested_version").unwrap_or("-")),
        message.to_owned(),
        interrupt(agent),
        can("permissions"),
        can("resume"),
        can("fork"),
        can("helpers"),
    ]
}

/// Whether it is there, for each provider; one provider goes without its name.
fn found(agent: &Value) -> String {
    if agent.get("built_in").and_then(Value::as_bool) == Some(true) {
        return "built in".to_owned();
    }
    let all = agent.get("found").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let one = |found: &Value| match found.get("installed").and_then(Value::as_bool) {
        Some(true) => text(found, "version").unwrap_or("yes").to_owned(),
        Some(false) => "no".to_owned(),
        None => "in the image?".to_owned(),
    };
    match all {
        [only] => one(only),
        several => {
            let named = several
                .iter()
                .map(|found| format!("{} {}", text(found, "provider").unwrap_or("-"), one(found)));
            named.collect::<Vec<_>>().join(", ")
        }
    }
}

/// How long an interrupt took at most, of a call and of a command.
fn interrupt(agent: &Value) -> String {
    let measured = agent.get("measured").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let times = measured.iter().filter(|time| text(time, "name").is_some_and(|n| n.starts_with("interrupt")));
    match times.filter_map(|time| time.get("to_ms").and_then(Value::as_u64)).max() {
        Some(most) => format!("within {most} ms"),
        None => "-".to_owned(),
    }
}

/// Whether a provider's sandboxes find it; of any provider when none is named. None when nobody knows.
fn installed(agent: &Value, provider: Option<&str>) -> Option<bool> {
    let found = agent.get("found").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let of = found.iter().filter(|one| provider.is_none_or(|wanted| text(one, "provider") == Some(wanted)));
    let known: Vec<bool> = of.filter_map(|one| one.get("installed").and_then(Value::as_bool)).collect();
    (!known.is_empty()).then(|| known.contains(&true))
}

fn how_to_install(agent: &Value, provider: Option<&str>) -> String {
    let title = text(agent, "title").unwrap_or_default();
    let found = agent.get("found").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let of = found.iter().find(|one| provider.is_none_or(|wanted| text(one, "provider") == Some(wanted)));
    match (of.and_then(|one| text(one, "problem")), text(agent, "install")) {
        (Some(problem), _) => format!("{title} would not run in a sandbox: {problem}"),
        (None, Some(command)) => format!("{title} is not installed where sandboxes see it: {command}"),
        (None, None) => format!("{title} is not installed"),
    }
}

/// Refuses an agent that is not known, or not there.
pub(super) fn check(answer: &Value, name: &str, provider: Option<&str>) -> Outcome<()> {
    let provider = provider.or_else(|| text(answer, "default_provider"));
    if name.starts_with("acp:") {
        return Ok(());
    }
    let Some(agent) = agents(answer).iter().find(|agent| text(agent, "name") == Some(name)) else {
        let names: Vec<&str> = agents(answer).iter().filter_map(|agent| text(agent, "name")).collect();
        return Err(Failure::usage(format!(
            "no agent is called {name}; there are {}, or acp: and a command line",
            names.join(", ")
        )));
    };
    match installed(agent, provider) {
        Some(false) => Err(Failure::other(how_to_install(agent, provider))),
        Some(true) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer() -> Value {
        let codex = |installed: Value, problem: Value| {
            json!({"name": "codex", "title": "Codex", "tested_version": "0.16.0", "install": "npm install -g x@0.16.0",
                "found": [{"provider": "local", "installed": installed, "version": null, "problem": problem}],
                "capabilities": {"message": "next_call", "permissions": true, "resume": true, "fork": false},
                "measured": [{"name": "interrupt_in_a_tool", "to_ms": 187}, {"name": "message_to_idle", "to_ms": 999}]})
        };
        let native =
            json!({"name": "native", "built_in": true, "found": [{"provider": "local", "installed": true}]});
        json!({"default_runtime": "native", "default_provider": "local", "agents": [native, codex(json!(false), Value::Null)]})
    }

    #[test]
    fn what_is_missing_comes_with_the_command_that_installs_it() {
        let shown = shown(&answer());
        assert!(shown.contains("native (default)  built in"), "{shown}");
        assert!(shown.contains("within 187 ms"), "{shown}");
        assert!(
            shown.contains("Codex is not installed where sandboxes see it: npm install -g x@0.16.0"),
            "{shown}"
        );
    }

    #[test]
    fn only_what_is_known_to_be_missing_is_refused() {
        let mut answer = answer();
        let refused = check(&answer, "codex", None).unwrap_err();
        assert_eq!(refused.exit_code(), 1);
        assert!(refused.to_string().contains("npm install -g x@0.16.0"), "{refused}");
        assert!(check(&answer, "codex", Some("docker")).is_ok(), "nobody knows what an image holds");
        assert!(check(&answer, "acp:mine", None).is_ok());
        let unknown = check(&answer, "parrot", None).unwrap_err();
        assert_eq!(unknown.exit_code(), 2);
        assert!(unknown.to_string().contains("native, codex"), "{unknown}");
        answer["agents"][1]["found"][0]["problem"] = json!("it needs node");
        let broken = check(&answer, "codex", Some("local")).unwrap_err().to_string();
        assert_eq!(broken, "Codex would not run in a sandbox: it needs node");
    }
}
