//! The client commands on an external sandbox that is fed by HTTP.

use std::process::{Child, Stdio};

use serde_json::json;

use crate::support::{Ran, Server, sunaba, until, wait};

async fn fed() -> Server {
    let server = Server::start(&[]);
    server.post_event("ext-7f31", "agent.started", json!({ "runtime": "native", "model": "m" })).await;
    let nasty = "I look\x1b[2J around";
    server.post_event("ext-7f31", "agent.message", json!({ "turn": 1, "content": nasty })).await;
    let input = json!({ "turn": 1, "tool": "Bash", "tool_use_id": "t", "input": { "command": "make" } });
    server.post_event("ext-7f31", "agent.tool_use", input).await;
    server
}

/// Attaches in the background, without a terminal.
fn attach(server: &Server, id: &str) -> Child {
    let mut command = sunaba(server.data.path());
    command.args(["attach", id]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[tokio::test]
async fn a_sandbox_is_listed_shown_and_told() {
    let server = fed().await;
    let ps = server.run(&["ps"]);
    assert!(ps.expect_code(0).stdout.contains("ext-7f31"), "{}", ps.stdout);
    for word in ["ext-7f31", "7f31", "ext-7", "last"] {
        let show = server.json(&["show", word]);
        assert_eq!(show["sandbox"]["id"], "ext-7f31", "{word}");
        assert_eq!(show["sandbox"]["state"], "running");
    }
    assert!(server.run(&["show", "last"]).expect_code(0).stdout.contains("events"), "turns are shown");

    let logs = server.run(&["logs", "last"]);
    logs.expect_code(0);
    assert!(logs.stdout.contains("● I look␛[2J around\n◆ Bash make\n"), "{:?}", logs.stdout);
    assert!(!logs.stdout.contains('\x1b'), "neither colour nor an agent's escape in a pipe");
    let lines = server.run(&["logs", "last", "--json", "--tail", "2"]);
    let types: Vec<String> = lines
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["event_type"].to_string())
        .collect();
    assert_eq!(types.len(), 2, "{types:?}");
    assert_eq!(types[1], "\"agent.tool_use\"");

    let verdict = server.json(&["verify", "last"]);
    assert_eq!(verdict["ok"], true);
    server.run(&["verify", "--all"]).expect_code(0);
}

#[tokio::test]
async fn what_is_said_waits_for_the_agent() {
    let server = fed().await;
    let sent = server.json(&["send", "last", "hello there"]);
    assert_eq!(sent["status"], "queued");
    let interrupt = server.json(&["interrupt", "last"]);
    assert_eq!(interrupt["queue_size"], 2);
    let show = server.json(&["show", "last"]);
    let states: Vec<&str> = show["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["queued", "queued"]);

    let injected =
        json!({ "message_id": sent["message_id"], "message_type": "user_message", "content": "hello there" });
    server.post_event("ext-7f31", "agent.message_injected", injected).await;
    let show = server.run(&["show", "last"]);
    assert!(show.stdout.contains("first admin: hello there [read at event"), "{}", show.stdout);
}

#[tokio::test]
async fn several_are_stopped_at_once_or_none() {
    let server = fed().await;
    for id in ["ext-1", "ext-2", "ext-3"] {
        server.post_event(id, "agent.started", json!({})).await;
    }
    let wrong = server.run(&["stop", "ext-1", "nobody"]);
    assert!(wrong.expect_code(1).stderr.contains("no sandbox is called nobody"), "{}", wrong.stderr);
    assert_eq!(server.json(&["show", "ext-1"])["sandbox"]["state"], "running");
    server.run(&["stop"]).expect_code(2);

    let two = server.json(&["stop", "ext-1", "ext-2"]);
    assert_eq!((&two[0]["id"], &two[1]["state"]), (&json!("ext-1"), &json!("cancelled")));
    let rest = server.run(&["stop", "--all"]);
    assert_eq!(rest.expect_code(0).stdout.lines().count(), 2, "{}", rest.stdout);
    let none = server.run(&["stop", "--all"]);
    assert!(none.expect_code(0).stderr.contains("no sandbox is running"), "{}", none.stderr);
}

#[tokio::test]
async fn the_exit_code_tells_how_it_ended() {
    let server = fed().await;
    let cancelled = attach(&server, "ext-7f31");
    server.run(&["stop", "ext-7f31"]).expect_code(0);
    let again = server.run(&["stop", "ext-7f31"]);
    assert!(again.expect_code(0).stdout.contains("already cancelled"), "{}", again.stdout);
    let ran = Ran::from(cancelled.wait_with_output().unwrap());
    ran.expect_code(130);
    assert!(ran.stdout.contains("■ cancelled"), "{}", ran.stdout);

    server.post_event("ext-8", "agent.started", json!({})).await;
    let failed = attach(&server, "ext-8");
    server.post_event("ext-8", "agent.failed", json!({ "error": "no luck" })).await;
    let ran = Ran::from(failed.wait_with_output().unwrap());
    ran.expect_code(1);
    assert!(ran.stdout.contains("✗ no luck"), "{}", ran.stdout);

    // Attaching to one that has ended tells its story and ends.
    server.run(&["attach", "ext-8"]).expect_code(1);
    server.run(&["logs", "-f", "-n", "1", "ext-8"]).expect_code(0);
}

#[tokio::test]
async fn a_typed_line_reaches_the_agent_while_attached() {
    let server = fed().await;
    let mut command = sunaba(server.data.path());
    command.args(["attach", "last", "--stdin"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut keyboard = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut keyboard, b"use tabs\n").unwrap();
    until("the message", || server.json(&["show", "last"])["messages"][0]["content"] == "use tabs");
    // Ctrl-C: once to interrupt the agent; the message says so.
    let pid = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    until("the interrupt", || server.json(&["show", "last"])["messages"][1]["message_type"] == "interrupt");
    // Twice, without a terminal to ask on: the sandbox is stopped.
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let status = wait(&mut child);
    assert_eq!(status.code(), Some(130));
    drop(keyboard);
}

#[tokio::test]
async fn a_story_goes_on_over_a_restart_of_the_server() {
    let mut server = fed().await;
    let watcher = attach(&server, "last");
    // The stream is open once the watcher's words are a message in the log's neighbourhood: wait for its metric.
    let metrics = format!("{}/metrics", server.url);
    let open = crate::support::http();
    let token = server.token();
    let started = std::time::Instant::now();
    loop {
        let text = open.get(&metrics).bearer_auth(&token).send().await.unwrap().text().await.unwrap();
        if text.contains("sunaba_event_streams_open 1") {
            break;
        }
        assert!(started.elapsed() < crate::support::DEADLINE, "no stream was opened: {text}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let address = server.url.trim_start_matches("http://").to_owned();
    server.child = sunaba(server.data.path())
        .args(["serve", "--listen", &address])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the server", || server.run(&["ps"]).code == Some(0));
    server.post_event("ext-7f31", "agent.message", json!({ "content": "after the restart" })).await;
    server.run(&["stop", "ext-7f31"]).expect_code(0);
    let ran = Ran::from(watcher.wait_with_output().unwrap());
    ran.expect_code(130);
    assert_eq!(ran.stdout.matches("I look").count(), 1, "nothing twice: {}", ran.stdout);
    assert_eq!(ran.stdout.matches("after the restart").count(), 1, "nothing missing: {}", ran.stdout);
    assert!(
        ran.stderr.contains("the server went away; trying again") && ran.stderr.contains("connected again"),
        "{}",
        ran.stderr
    );
}

#[test]
fn wrong_use_and_absent_servers_have_codes_of_their_own() {
    let data = tempfile::tempdir().unwrap();
    let none = Ran::of(sunaba(data.path()).arg("ps"));
    none.expect_code(3);
    assert!(none.stderr.contains("no server is running for"), "{}", none.stderr);
    let away = Ran::of(sunaba(data.path()).args(["ps", "--json"]).env("SUNABA_URL", "http://127.0.0.1:9"));
    away.expect_code(3);
    let error: serde_json::Value = serde_json::from_str(&away.stdout).unwrap();
    assert_eq!(error["error"]["code"], "server_unreachable");
    let garbage = Ran::of(sunaba(data.path()).arg("ps").env("SUNABA_URL", "garbage"));
    garbage.expect_code(2);
    assert!(garbage.stderr.contains("SUNABA_URL is \"garbage\""), "{}", garbage.stderr);
    Ran::of(sunaba(data.path()).args(["demo", "--data", "x"])).expect_code(2);
    Ran::of(sunaba(data.path()).arg("nonsense")).expect_code(2);
    Ran::of(sunaba(data.path()).args(["run", "--repo", "/nowhere", "x"])).expect_code(2);
    Ran::of(sunaba(data.path()).args(["run", "--repo"]).arg(data.path()).arg("x")).expect_code(2);
    let server = Server::start(&[]);
    let unknown = server.run(&["show", "zzz"]);
    unknown.expect_code(1);
    assert!(unknown.stderr.contains("no sandbox is called zzz"), "{}", unknown.stderr);
}
