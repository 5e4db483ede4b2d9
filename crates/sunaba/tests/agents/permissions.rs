//! An agent that has to ask: it is denied something and told why, and allowed something else.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::conformance::Findings;
use crate::run::{Run, git};
use crate::working::in_words;
use crate::world::World;

const WHY: &str = "not on a Monday";
/// How an agent that can only be told yes or no is told to do something else.
const OTHERWISE: &str = "Do this instead";

/// What is denied may be gone from the conversation (Gemini's), so each answer is known by what was said last.
fn script() -> String {
    format!(
        r#"
- when: {{no_tools: true}}
  text: A title
- when: {{request_contains: {OTHERWISE}}}
  text: Done.
- when: {{request_contains: {WHY}, times: 1}}
  tools:
    - shell: echo asked > asked.txt && rm -f none
- tools:
    - shell: echo denied > denied.txt && rm -f none
- text: Done.
"#
    )
}

pub(crate) async fn case(world: &World) -> anyhow::Result<Findings> {
    let ask = json!({ "execution_config": { "permission_mode": "ask" } });
    let run = world.run_with(&script(), &ask).await?;
    let first = question(&run, None).await?;
    let clear = says(&first, "denied.txt");
    run.post(&answer(&first)?, &json!({ "decision": "deny", "message": WHY })).await?;
    let second = question(&run, Some(&first)).await?;
    let clear = clear.and(says(&second, "asked.txt"));
    let instead = json!({ "command": "echo instead > instead.txt" });
    run.post(&answer(&second)?, &json!({ "decision": "allow", "updated_input": instead })).await?;
    run.completed().await?;
    let row = run.get("").await?;
    let branch = row["branch_name"].as_str().context("branch_name")?;
    let files = git(world.repo.path(), &["ls-tree", "--name-only", branch])
        .unwrap_or_else(|_| "README.md\n".to_owned());
    Ok(vec![
        ("question_says_what", in_words(clear)),
        ("permission_denied", in_words(denied(&files))),
        ("permission_rewritten", in_words(rewritten(&files))),
    ])
}

/// Waits for an open question, after another one.
async fn question(run: &Run<'_>, after: Option<&Value>) -> anyhow::Result<Value> {
    run.until("a question", async || {
        let asked = run.get("/questions").await?;
        let asked = asked["questions"].as_array().or(asked.as_array()).context("questions")?.clone();
        let is_next =
            |one: &Value| one["state"] == "open" && after.is_none_or(|after| one["id"] != after["id"]);
        Ok(asked.into_iter().find(is_next))
    })
    .await
}

/// Whoever is asked has to be told what about.
fn says(question: &Value, what: &str) -> anyhow::Result<()> {
    let input = question["input"].to_string();
    ensure!(input.contains(what), "the question does not say what is to be done: {input}");
    Ok(())
}

fn answer(question: &Value) -> anyhow::Result<String> {
    Ok(format!("/questions/{}/answer", question["id"].as_str().context("id")?))
}

fn denied(files: &str) -> anyhow::Result<()> {
    ensure!(!files.contains("denied.txt"), "what was denied was done: {files}");
    Ok(())
}

fn rewritten(files: &str) -> anyhow::Result<()> {
    ensure!(
        files.contains("instead.txt") && !files.contains("asked.txt"),
        "something else was done than what was allowed: {files}"
    );
    Ok(())
}
