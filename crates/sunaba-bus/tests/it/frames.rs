//! What subscribers outside get.

use serde_json::{Value, json};
use sunaba_store::NewProject;
use sunaba_testkit::{Redis, Setup, WsReader};
use sunaba_types::{ProjectSettings, SandboxId};

use crate::support::{Node, Subscriber, post, sqlite};

/// Channel and text are those of the contract, byte for byte what the WebSocket has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_outside_get_the_frames_of_the_websocket() {
    let (redis, app) = (Redis::start(), Setup::default().start().await);
    let node = Node::leading(&redis, app.store.clone()).await;
    let mut outside = Subscriber::open(&redis).await;
    let after = app.store.feed_head().await.unwrap();
    let mut inside = WsReader::connect(&app.admin, &format!("after={after}")).await;
    let id = SandboxId::generate();
    post(&*app.store, &id, "agent.tool_use", json!({"tool": "Bash", "source": "liar"})).await;
    post(&*app.store, &id, "agent.message", json!({"content": "砂場 \" \\ \n\u{1}"})).await;
    let project = NewProject {
        name: "p".to_owned(),
        repo_path: Some("/srv/p".to_owned()),
        repo_url: None,
        default_branch: "main".to_owned(),
        settings: ProjectSettings::default(),
    };
    app.store.ensure_project(project).await.unwrap();
    let head = app.store.feed_head().await.unwrap();
    let mut channels = Vec::new();
    loop {
        let text = inside.next_text().await.unwrap();
        let frame: Value = serde_json::from_str(&text).unwrap();
        let Some(event_type) = frame["event_type"].as_str() else { continue };
        assert_eq!(outside.next().await, (format!("events.{event_type}"), text.clone()));
        channels.push(event_type.to_owned());
        if frame["position"] == head {
            break;
        }
    }
    for expected in ["SANDBOX_agent.tool_use", "SANDBOX_agent.message"] {
        assert!(channels.iter().any(|channel| channel == expected), "{channels:?}");
    }
    node.published_all().await;
    assert_eq!(node.handle.status().behind, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_payload_is_left_out() {
    let (redis, dir) = (Redis::start(), tempfile::tempdir().unwrap());
    let node = Node::leading(&redis, sqlite(&dir).await).await;
    let mut outside = Subscriber::open(&redis).await;
    let id = SandboxId::generate();
    post(&*node.store, &id, "agent.small", json!({"content": "x".repeat(60 * 1024)})).await;
    post(&*node.store, &id, "agent.large", json!({"content": "x".repeat(70 * 1024)})).await;
    let mut frames = Vec::new();
    while frames.len() < 2 {
        let (channel, text) = outside.next().await;
        let frame: Value = serde_json::from_str(&text).unwrap();
        if channel == "events.SANDBOX_agent.small" || channel == "events.SANDBOX_agent.large" {
            frames.push(frame);
        }
    }
    assert_eq!(frames[0]["payload"]["content"].as_str().map(str::len), Some(60 * 1024));
    assert!(frames[0].get("payload_omitted").is_none());
    assert_eq!((&frames[1]["payload"], &frames[1]["payload_omitted"]), (&Value::Null, &json!(true)));
    assert_eq!(frames[1]["entity_id"], id.as_str());
    assert_eq!(frames[1]["seq"].as_i64(), frames[0]["seq"].as_i64().map(|seq| seq + 1));
}
