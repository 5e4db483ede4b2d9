//! What the repository and whoever starts the run have to say about tools, skills and manners.

use std::path::Path;

use serde_json::{Value, json};
use sunaba_agent::ToolPolicy;

use crate::fake_model::{asks, says};
use crate::harness::{Harness, Setup, tool_result};

fn tool_names(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

fn with_a_skill(dir: &Path) {
    std::fs::create_dir_all(dir.join(".claude/skills/release")).unwrap();
    let file = "---\nname: release\ndescription: How a release is made.\n---\nFirst ring the bell.";
    std::fs::write(dir.join(".claude/skills/release/SKILL.md"), file).unwrap();
}

#[tokio::test]
async fn a_skill_is_named_first_and_read_when_it_is_used() {
    let tools = [("Skill", json!({"skill": "release"})), ("Skill", json!({"skill": "other"}))];
    let mut harness = Harness::start_in(vec![asks(&tools), says("done")], with_a_skill).await;
    assert!(harness.outcome().await.success());
    let requests = harness.model.requests();
    let offered = requests[0]["tools"].as_array().unwrap().last().unwrap().to_string();
    assert!(
        offered.contains("- release: How a release is made.") && !requests[0].to_string().contains("bell")
    );
    let (body, is_error) = tool_result(&requests[1], "t0");
    let directory = harness.dir.path().join(".claude/skills/release").display().to_string();
    assert!(!is_error && body.contains(&directory) && body.ends_with("First ring the bell."), "{body}");
    let (reason, is_error) = tool_result(&requests[1], "t1");
    assert!(is_error && reason.contains("no skill named other; there are release"), "{reason}");
    let invoked = &harness.told_of("agent.skill_invoked")[0];
    assert_eq!((&invoked["skill_name"], &invoked["event_subtype"]), (&json!("release"), &json!("skill")));
    let completed = harness.told_of("agent.skill_completed");
    let completed = completed.iter().find(|told| told["skill_name"] == "release").unwrap();
    assert!(completed["tool_response"].as_str().unwrap().contains("ring the bell"));
}

#[tokio::test]
async fn without_skills_there_is_no_tool_for_them() {
    let mut harness = Harness::start(vec![says("done")]).await;
    harness.outcome().await;
    let names = ["Read", "Write", "Edit", "Bash", "Glob", "Grep", "TodoWrite", "Task"];
    assert_eq!(tool_names(&harness.model.requests()[0]), names);
}

#[tokio::test]
async fn only_what_is_offered_can_be_called() {
    let mut setup = Setup::default();
    setup.config.tools = ToolPolicy {
        allowed: vec!["Read".to_owned(), "Bash".to_owned()],
        disallowed: vec!["Bash".to_owned()],
        skills: Some(true),
        subagents: Some(false),
    };
    let tools = [("Bash", json!({"command": "touch x"})), ("Task", json!({"subagent_type": "debugger"}))];
    let mut harness = Harness::start_with(vec![asks(&tools), says("done")], setup, with_a_skill).await;
    assert!(harness.outcome().await.success());
    let requests = harness.model.requests();
    assert_eq!(tool_names(&requests[0]), ["Read", "Skill"]);
    for (id, name) in [("t0", "Bash"), ("t1", "Task")] {
        let (content, is_error) = tool_result(&requests[1], id);
        assert!(
            is_error && content == format!("there is no tool named {name}; there are Read, Skill"),
            "{content}"
        );
    }
    assert!(!harness.dir.path().join("x").exists());
}

#[tokio::test]
async fn what_the_repository_tells_every_agent_stands_in_the_system_prompt() {
    let mut harness = Harness::start_in(vec![says("done")], |dir| {
        std::fs::write(dir.join("AGENTS.md"), "run make lint").unwrap();
        std::fs::write(dir.join("CLAUDE.md"), "never push").unwrap();
    })
    .await;
    harness.outcome().await;
    let request = harness.model.requests()[0].clone();
    let system = request["system"][0]["text"].as_str().unwrap();
    assert!(system.starts_with("You are a software engineer"), "{system}");
    assert!(
        system.ends_with("## AGENTS.md\n\nrun make lint\n\n## CLAUDE.md\n\nnever push\n\nbe brief"),
        "{system}"
    );
}

#[tokio::test]
async fn a_list_of_what_is_to_do_is_looked_over() {
    let item = |content: &str, status: &str| json!({"content": content, "status": status, "activeForm": "…"});
    let list =
        json!({"todos": [item("look", "completed"), item("write", "in_progress"), item("test", "pending")]});
    let tools = [("TodoWrite", list), ("TodoWrite", json!({"todos": [item("x", "someday")]}))];
    let mut harness = Harness::start(vec![asks(&tools), says("done")]).await;
    harness.outcome().await;
    let request = &harness.model.requests()[1];
    let shown = "1 of 3 done\n[x] look\n[>] write\n[ ] test\n";
    assert_eq!(tool_result(request, "t0"), (shown.to_owned(), false));
    let (reason, is_error) = tool_result(request, "t1");
    assert!(is_error && reason.contains("someday"), "{reason}");
}
