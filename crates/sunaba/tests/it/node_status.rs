//! `GET /api/v1/system/status`: how the loops of every node fare, and how far behind anything is.

use serde_json::{Value, json};

use crate::installation::{Installation, id_of};
use crate::support::{Server, until};

/// What every node does again and again, and in `wake` what one does that starts sandboxes.
const LOOPS: &[&str] = &["feed", "heartbeat", "nodes", "questions", "reconcile", "sandboxes", "wake"];

/// What the server tells; nothing while it cannot.
fn told(server: &Server) -> Option<Value> {
    serde_json::from_str(&server.run(&["status", "--json"]).stdout).ok()
}

/// How the loops of a node fare, as a server tells it.
fn loops(server: &Server, node: &str) -> Option<Value> {
    let told = told(server)?;
    let node = told["nodes"].as_array()?.iter().find(|it| it["id"] == node)?;
    Some(node["loops"].clone())
}

fn names(loops: &Value) -> Vec<&str> {
    loops.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_tells_how_its_loops_fare() {
    let installation = Installation::without_redis();
    let servers = [installation.node(&[]), installation.node(&["--roles", "api"])];
    for (told, expected) in servers.iter().zip([LOOPS, &LOOPS[..6]]) {
        for asked in &servers {
            let mut seen = json!({});
            until("every loop has gone round", || {
                seen = loops(asked, &id_of(told)).unwrap_or(json!({}));
                names(&seen).len() >= expected.len()
            });
            assert_eq!(names(&seen), expected);
            for (name, fares) in seen.as_object().unwrap() {
                assert_eq!((&fares["failures"], &fares["failures_total"]), (&json!(0), &json!(0)), "{name}");
                assert!(fares["age_ms"].as_u64().unwrap() < 30_000, "{name}: {fares}");
                assert!(fares["took_ms"].is_u64(), "{name}: {fares}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_stays_behind_what_is_written() {
    let installation = Installation::without_redis();
    let servers = [installation.node(&["--roles", "api"]), installation.node(&["--roles", "api"])];
    for n in 0..50 {
        servers[0].post_event("ext-1", "agent.message", json!({ "n": n })).await;
    }
    let head = told(&servers[0]).unwrap()["feed"]["head"].as_i64().unwrap();
    assert!(head >= 50, "{head}");
    for server in &servers {
        until("all of it is seen", || {
            let feed = told(server).unwrap()["feed"].clone();
            feed["seen"].as_i64() >= Some(head) && feed["behind"] == 0
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_database_is_counted_and_shown_when_it_is_over() {
    let (installation, proxy) = Installation::behind_proxy().await;
    let server = installation.node(&[]);
    let me = id_of(&server);
    until("every loop has gone round", || loops(&server, &me).is_some_and(|it| names(&it) == LOOPS));

    proxy.cut();
    for words in [
        "cannot read the feed",
        "this node could not say that it lives",
        "cannot read the nodes",
        "could not look for questions",
        "cannot read the sandboxes",
        "cannot read what waits",
    ] {
        until(words, || server.log().contains(words));
    }
    proxy.forward();
    // Rows and providers are compared once a minute: that loop may not have noticed.
    let mut met = LOOPS.to_vec();
    met.retain(|name| *name != "reconcile");
    until("it is over, and was counted", || {
        let counted = |fares: &Value| fares["failures"] == 0 && fares["failures_total"].as_u64() > Some(0);
        loops(&server, &me).is_some_and(|seen| met.iter().all(|name| counted(&seen[name])))
    });
}
