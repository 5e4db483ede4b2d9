//! The server process: one for a directory, refusals that say why, an orderly end.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::json;

use crate::support::{Ran, Server, http, sunaba, until, wait};

#[test]
fn a_second_server_is_refused_and_told_who_has_the_directory() {
    let server = Server::start(&[]);
    let second = server.run(&["serve", "--listen", "127.0.0.1:0"]);
    second.expect_code(1);
    let wanted = format!("already served by process {} at {}", server.child.id(), server.url);
    assert!(second.stderr.contains(&wanted), "{}", second.stderr);
    server.run(&["ps"]).expect_code(0);
}

#[test]
fn without_tokens_it_serves_loopback_only() {
    let data = tempfile::tempdir().unwrap();
    let ran = Ran::of(sunaba(data.path()).args(["serve", "--auth", "off", "--listen", "0.0.0.0:0"]));
    ran.expect_code(2);
    assert!(ran.stderr.contains("only possible on a loopback address"), "{}", ran.stderr);

    let open = Server::start(&["--auth", "off"]);
    let ps = Ran::of(sunaba(std::path::Path::new("/nowhere")).arg("ps").env("SUNABA_URL", &open.url));
    ps.expect_code(0);
}

#[test]
fn a_taken_port_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = tempfile::tempdir().unwrap();
    let ran = Ran::of(sunaba(data.path()).args(["serve", "--listen", &address]));
    ran.expect_code(1);
    assert!(ran.stderr.contains(&format!("{address} is in use by another program")), "{}", ran.stderr);
}

#[tokio::test]
async fn sigterm_drains_and_takes_the_announcement_back() {
    let mut server = Server::start(&[]);
    server.post_event("ext-1", "agent.started", json!({})).await;
    let token = std::fs::metadata(server.data.path().join("admin-token")).unwrap();
    assert_eq!(token.permissions().mode() & 0o777, 0o600);
    assert!(server.data.path().join("server.json").exists());

    // An open stream must not hold up the end.
    let url = format!("{}/api/v1/sandboxes/ext-1/events/stream", server.url);
    let mut stream = http().get(url).bearer_auth(server.token()).send().await.unwrap().bytes_stream();
    stream.next().await.unwrap().unwrap();
    let asked = Instant::now();
    let status = server.terminate();
    assert!(status.success(), "{status}: {}", server.log());
    assert!(asked.elapsed() < Duration::from_secs(10), "took {:?}", asked.elapsed());
    assert!(!server.data.path().join("server.json").exists());
    server.run(&["ps"]).expect_code(3);
}

#[tokio::test]
async fn what_was_stored_is_there_after_a_restart() {
    let mut server = Server::start(&[]);
    server.post_event("ext-1", "agent.message", json!({ "content": "kept" })).await;
    let token = server.token();
    assert!(server.terminate().success());
    let child = sunaba(server.data.path())
        .args(["serve", "--listen", "127.0.0.1:0"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    server.child = child;
    until("the announcement", || server.data.path().join("server.json").exists());
    assert_eq!(server.token(), token, "the admin token stays");
    let logs = server.run(&["logs", "ext-1"]);
    assert!(logs.expect_code(0).stdout.contains("● kept"), "{}", logs.stdout);
}

#[tokio::test]
async fn no_token_is_ever_logged() {
    let server = Server::start(&["--log-level", "trace", "--log-format", "json"]);
    let made = server.json(&["token", "create", "reader", "--scopes", "read"]);
    let personal = made["token"].as_str().unwrap().to_owned();
    server.post_event("ext-1", "agent.started", json!({})).await;
    let admin = server.token();
    let ways = [
        format!("{}/api/v1/sandboxes/ext-1/events/stream?token={personal}", server.url),
        format!("{}/w/{personal}/api/v1/sandboxes/ext-1", server.url),
        format!("{}/w/{personal}/nowhere", server.url),
        format!("{}/api/v1/sandboxes?token={personal}", server.url),
    ];
    for url in ways {
        let _ = http().get(url).bearer_auth(&admin).send().await.unwrap();
    }
    let bad = http().get(format!("{}/api/v1/sandboxes", server.url)).bearer_auth("sun_admin_wrong");
    assert_eq!(bad.send().await.unwrap().status(), 401);
    server.run(&["send", "ext-1", "hello"]).expect_code(0);
    let log = server.log();
    assert!(log.lines().count() > 5, "at trace something is logged: {log}");
    for token in [admin.as_str(), personal.as_str(), "sun_admin_wrong"] {
        assert!(!log.contains(token), "a token is in the log");
    }
}

#[test]
fn a_directory_that_is_open_to_others_is_closed() {
    let data = tempfile::tempdir().unwrap();
    let open = |mode| std::fs::set_permissions(data.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    open(0o1777);
    let shared = Ran::of(sunaba(data.path()).args(["serve", "--listen", "127.0.0.1:0"]));
    shared.expect_code(2);
    open(0o755);
    let mut child = sunaba(data.path())
        .args(["serve", "--listen", "127.0.0.1:0"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    until("the announcement", || data.path().join("server.json").exists());
    assert_eq!(std::fs::metadata(data.path()).unwrap().permissions().mode() & 0o777, 0o700);
    Ran::of(sunaba(data.path()).args(["serve", "--stop"])).expect_code(0);
    assert!(wait(&mut child).success());
}
