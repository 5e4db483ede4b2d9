//! The program on PostgreSQL: what it needs, what it refuses and with which words.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use sunaba_testkit::Postgres;

use crate::support::{Ran, Server, http, sunaba};

/// 32 bytes in base64.
const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// `serve` on this database.
fn serve(data: &Path, url: &str) -> Command {
    let mut command = sunaba(data);
    command.args(["serve", "--listen", "127.0.0.1:0", "--json"]);
    command.env("DATABASE_URL", url).env("SUNABA_SECRET_KEY", KEY);
    command
}

/// What a start that must be refused says.
fn refused(url: &str) -> String {
    let data = tempfile::tempdir().unwrap();
    let ran = Ran::of(&mut serve(data.path(), url));
    ran.expect_code(1);
    ran.stdout + &ran.stderr
}

/// A second server on the same database, from a data directory of its own.
fn server(url: &str, more: &[&str]) -> Server {
    let data = tempfile::tempdir().unwrap();
    let mut command = serve(data.path(), url);
    command.args(more);
    Server::of(command, data)
}

#[test]
fn a_start_without_a_key_is_refused_with_the_way_to_make_one() {
    let data = tempfile::tempdir().unwrap();
    let mut command = serve(data.path(), "postgres://me:geheim@127.0.0.1:9/d");
    let ran = Ran::of(command.env_remove("SUNABA_SECRET_KEY"));
    ran.expect_code(2);
    assert!(ran.stderr.contains("openssl rand -base64 32"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("geheim"), "{}", ran.stderr);
}

#[test]
fn why_a_database_cannot_be_used_is_said_without_its_password() {
    let postgres = Postgres::start();
    postgres.add_user("guest", "right");
    let database = postgres.database();
    let as_guest = |password: &str| database.replace("postgres@", &format!("guest:{password}@"));
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let name = database.rsplit('/').next().unwrap();
    for (url, said) in [
        (format!("postgres://guest:geheim@{nobody}/d"), "PostgreSQL does not answer".to_owned()),
        (as_guest("geheim"), "does not let the user guest in".to_owned()),
        (
            as_guest("right").replace(name, "nowhere"),
            "PostgreSQL has no database nowhere at 127.0.0.1:".to_owned(),
        ),
        (
            format!("{}?options=-c%20synchronous_commit%3Doff", as_guest("right")),
            format!("{name} at 127.0.0.1:{} has synchronous_commit off", postgres.port()),
        ),
    ] {
        let stderr = refused(&url);
        assert!(stderr.contains(&said), "{said}\nis missing in\n{stderr}");
        assert!(!stderr.contains("geheim") && !stderr.contains("right@"), "{stderr}");
    }
    let mut up = server(&as_guest("right"), &[]);
    assert!(up.terminate().success());

    postgres.execute(name, "UPDATE layout SET usable_from = 9999");
    assert!(refused(&database).contains("needs layout 9999 and this program knows"));
}

#[tokio::test]
async fn a_role_that_is_not_given_is_not_played() {
    let url = Postgres::shared().database();
    let first = server(&url, &[]);
    first.post_event("ext-1", "agent.message", json!({ "content": "kept" })).await;
    let api = server(&url, &["--roles", "api"]);
    let logs = api.run(&["logs", "ext-1"]);
    assert!(logs.expect_code(0).stdout.contains("● kept"), "{}", logs.stdout);
    let third = server(&url, &["--roles", "orchestrator"]);
    let people = http().get(format!("{}/api/v1/projects", third.url)).bearer_auth(third.token());
    let answer = people.send().await.unwrap();
    assert_eq!(answer.status(), 503);
    assert!(answer.text().await.unwrap().contains("role_not_here"));
}

#[test]
fn a_password_in_a_flag_is_warned_about_and_never_logged() {
    let postgres = Postgres::start();
    postgres.add_user("guest", "geheim");
    let url = postgres.database().replace("postgres@", "guest:geheim@");
    let data = tempfile::tempdir().unwrap();
    let mut command = serve(data.path(), "postgres://127.0.0.1:9/other");
    command.args([
        "--log-level",
        "trace",
        "--redis-url",
        "redis://:geheim@127.0.0.1:9",
        "--database-url",
        &url,
    ]);
    let mut server = Server::of(command, data);
    server.run(&["ps"]).expect_code(0);
    assert!(server.terminate().success());
    let log = server.log();
    assert!(!log.contains("geheim"), "the password is in the log");
    for key in ["database_url", "redis_url"] {
        let warned = |line: &str| line.contains("list of processes") && line.contains(key);
        assert!(log.lines().any(warned), "{key}: {log}");
    }
    let mut shown = sunaba(server.data.path());
    shown.args(["config", "--json"]).env("DATABASE_URL", &url).env("SUNABA_SECRET_KEY", KEY);
    let shown = Ran::of(shown.stderr(Stdio::piped()));
    assert!(shown.expect_code(0).stdout.contains("postgres://guest:***@127.0.0.1"), "{}", shown.stdout);
    assert!(!shown.stdout.contains("geheim"));
}
