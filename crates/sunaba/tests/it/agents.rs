//! Which agents there are, and trying one in a real sandbox.

use serde_json::Value;

use crate::support::{Ran, Server, sunaba};

#[test]
fn agents_are_listed_and_one_that_works_is_shown_to_work() {
    let server = Server::start(&[]);
    let listed = server.json(&["agent", "list"]);
    let names: Vec<&str> =
        listed["agents"].as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap()).collect();
    assert_eq!(names, sunaba_types::agents::NAMES);
    let shown = server.run(&["agent", "list"]);
    assert!(shown.stdout.contains("native (default)"), "{}", shown.stdout);

    let tried = server.json(&["agent", "test", "native"]);
    assert_eq!(tried["ok"], true, "{tried:#}\n{}", server.log());
    let checks = tried["checks"].as_array().unwrap();
    let names: Vec<&str> = checks.iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["start", "tool", "edit", "message", "interrupt", "end"]);
    let took = |name: &str| checks.iter().find(|check| check["name"] == name).unwrap()["ms"].as_u64();
    assert!(took("interrupt").unwrap() < 10_000, "a command of 300 s was stopped: {tried:#}");
}

#[test]
fn whoever_lists_agents_first_starts_a_server() {
    let data = tempfile::tempdir().unwrap();
    let listed = Ran::of(sunaba(data.path()).args(["agent", "list"]));
    let stopped = Ran::of(sunaba(data.path()).args(["serve", "--stop"]));
    listed.expect_code(0);
    assert!(listed.stdout.contains("native (default)"), "{}", listed.stdout);
    stopped.expect_code(0);
}

#[test]
fn one_that_is_not_there_fails_and_says_so() {
    let server = Server::start(&[]);
    let unknown = server.run(&["agent", "test", "parrot"]);
    unknown.expect_code(2);
    assert!(unknown.stderr.contains("native, claude, codex"), "{}", unknown.stderr);

    let missing = server.run(&["agent", "test", "acp:/nowhere/agent", "--json"]);
    missing.expect_code(1);
    let tried: Value = serde_json::from_str(&missing.stdout).unwrap();
    let end = tried["checks"].as_array().unwrap().last().unwrap();
    assert_eq!((&tried["ok"], &end["ok"]), (&Value::Bool(false), &Value::Bool(false)), "{tried:#}");
    assert!(end["detail"].as_str().unwrap().contains("/nowhere/agent is not there"), "{tried:#}");
}
