//! `sunaba migrate`: a server's SQLite moved to PostgreSQL, and what goes on there.

use std::process::Command;

use serde_json::json;
use sunaba_testkit::Postgres;

use crate::support::{Ran, Server, sunaba};

/// The program on this data directory, whatever store tests run on.
fn on_sqlite(data: &std::path::Path) -> Command {
    let mut command = sunaba(data);
    command.env_remove("DATABASE_URL").env_remove("SUNABA_SECRET_KEY");
    command
}

fn sqlite_server() -> Server {
    let data = tempfile::tempdir().unwrap();
    let mut command = on_sqlite(data.path());
    command.args(["serve", "--listen", "127.0.0.1:0", "--json"]);
    Server::of(command, data)
}

#[tokio::test]
async fn a_server_goes_on_where_it_was_on_postgres() {
    let postgres = Postgres::start();
    postgres.add_user("guest", "geheim");
    let url = postgres.database().replace("postgres@", "guest:geheim@");
    let mut server = sqlite_server();
    server.post_event("ext-1", "agent.message", json!({ "content": "kept \u{1f980}" })).await;
    server.post_event("ext-2", "agent.message", json!({ "content": "also" })).await;
    let migrate = |data: &std::path::Path| {
        let mut command = on_sqlite(data);
        Ran::of(command.args(["migrate", "--from", &format!("sqlite:{}", data.display()), "--to", &url]))
    };
    let data = server.data.path().to_owned();

    let busy = migrate(&data);
    busy.expect_code(1);
    assert!(busy.stderr.contains("already served by process"), "{}", busy.stderr);
    assert!(server.terminate().success());

    let moved = migrate(&data);
    moved.expect_code(0);
    let said = format!("{}{}", moved.stdout, moved.stderr);
    assert!(moved.stdout.contains("2 events in 2 sandboxes, every chain holds"), "{said}");
    assert!(moved.stdout.contains("secret.key"), "{said}");
    assert!(said.contains("postgres://guest:***@") && !said.contains("geheim"), "{said}");

    let again = migrate(&data);
    again.expect_code(1);
    assert!(again.stderr.contains("the target is not empty"), "{}", again.stderr);

    let mut command = on_sqlite(&data);
    command.args(["serve", "--listen", "127.0.0.1:0", "--json"]);
    command.env("DATABASE_URL", &url).env("SUNABA_SECRET_KEY_FILE", data.join("secret.key"));
    server.restart(&mut command);
    // The admin token of the data directory is still the one.
    let logs = server.run(&["logs", "ext-1"]);
    assert!(logs.expect_code(0).stdout.contains("kept \u{1f980}"), "{}", logs.stdout);
    server.post_event("ext-1", "agent.message", json!({ "content": "more" })).await;
    let verified = server.run(&["verify", "--all"]);
    assert!(
        verified.expect_code(0).stdout.contains("ext-1: 2 events, the chain holds"),
        "{}",
        verified.stdout
    );
}

#[test]
fn ends_that_are_none_are_refused() {
    let data = tempfile::tempdir().unwrap();
    for (from, to, said) in [
        ("sqlite:/nowhere/sunaba.db", "postgres://h/d", "there is no directory /nowhere"),
        ("mysql://me:geheim@h/d", "postgres://h/d", "is not a database address"),
        ("", "postgres://h", "names no database"),
    ] {
        let mut command = on_sqlite(data.path());
        command.args(["migrate", "--to", to]);
        if !from.is_empty() {
            command.args(["--from", from]);
        }
        let ran = Ran::of(&mut command);
        ran.expect_code(2);
        assert!(ran.stderr.contains(said) && !ran.stderr.contains("geheim"), "{}", ran.stderr);
    }
}
