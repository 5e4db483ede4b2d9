//! An older and a newer program on one database, as while servers are replaced one by one. The newer one is this
//! program too; what its migrations would have done is done to the database by hand.

use serde_json::{Value, json};

use crate::installation::{Across, Installation, STEERED, id_of, run, script, state};
use crate::support::{Ran, Server, git, http, until, wait};

/// A migration that only adds, recorded as the migrator records it.
const EXPAND: &str = "
    ALTER TABLE events ADD COLUMN added_later text NOT NULL DEFAULT 'x';
    ALTER TABLE sandboxes ADD COLUMN added_later bigint NOT NULL DEFAULT 7;
    ALTER TABLE messages ADD COLUMN added_later text;
    ALTER TABLE feed ADD COLUMN added_later text NOT NULL DEFAULT 'x';
    ALTER TABLE nodes ADD COLUMN added_later text NOT NULL DEFAULT 'x';
    ALTER TABLE projects ADD COLUMN added_later text NOT NULL DEFAULT 'x';
    CREATE TABLE made_later (id bigint PRIMARY KEY);
    CREATE INDEX events_by_later ON events (added_later, sandbox_id);
    INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
    VALUES (9999, 'later', true, '\\x00', 1)";

/// The numbers of an outside sandbox's events, as this server lists them.
async fn seqs(server: &Server, sandbox: &str) -> Vec<i64> {
    let url = format!("{}/api/v1/sandboxes/{sandbox}/events", server.url);
    let page: Value = http().get(url).bearer_auth(server.token()).send().await.unwrap().json().await.unwrap();
    page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_i64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_two_versions_work_on_one_database() {
    let installation = Installation::start();
    let mut older = installation.node(&[]);
    let said = async |server: &Server| server.post_event("ext-1", "agent.message", json!({})).await;
    said(&older).await;
    assert_eq!(seqs(&older, "ext-1").await, [1], "what it asks is prepared on the layout as it was");
    installation.execute(EXPAND);
    said(&older).await;

    // The newer one has the repository, the older one holds the sandbox.
    let newer = installation.node(&["--roles", "api"]);
    let repo = crate::support::repository(newer.data.path());
    said(&newer).await;
    let id = run(&newer, &repo, &script(newer.data.path(), STEERED));
    until("it runs", || state(&newer, &id) == "running");
    assert_eq!(newer.json(&["show", &id])["sandbox"]["node_id"], id_of(&older));
    newer.run(&["send", &id, "please also b.txt"]).expect_code(0);
    assert!(older.terminate().success());
    installation.again(&mut older);
    said(&older).await;
    until("the end", || state(&newer, &id) == "completed");

    let branch = older.json(&["show", &id])["sandbox"]["branch_name"].as_str().unwrap().to_owned();
    assert_eq!(git(&repo, &["show", &format!("{branch}:b.txt")]), "b\n");
    for server in [&older, &newer] {
        assert_eq!(seqs(server, "ext-1").await, [4, 3, 2, 1]);
        server.run(&["verify", "ext-1"]).expect_code(0);
        server.run(&["verify", &id]).expect_code(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_too_old_for_its_database_writes_nothing_and_stops() {
    let Across { installation, mut home, .. } = Across::start();
    home.post_event("ext-1", "agent.message", json!({})).await;
    installation.execute("LOCK TABLE layout; UPDATE layout SET usable_from = 9999");
    let event = json!({ "event_type": "agent.message", "event_data": {} });
    let url = format!("{}/api/v1/sandboxes/ext-1/events", home.url);
    let answer = http().post(url).bearer_auth(home.token()).json(&event).send().await.unwrap();
    assert_eq!(answer.status(), 503, "to be said again to the newer program");
    assert_eq!(wait(&mut home.child).code(), Some(1));
    let words = "needs layout 9999 and this program knows";
    let said = home.log();
    assert!(said.contains(words) && said.contains("start the newer one in its place"), "{said}");
    assert!(installation.execute("SELECT 'events', count(*) FROM events").contains("events   |     1"));

    let again = Ran::of(&mut installation.serve(home.data.path(), &["--listen", "127.0.0.1:0"]));
    let said = again.expect_code(1).stderr.clone();
    assert!(said.contains(words) && said.contains("start the newer one in its place"), "{said}");
}
