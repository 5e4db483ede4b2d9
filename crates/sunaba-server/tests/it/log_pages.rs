//! The log is read: lists, trajectory, outline, verification.

use serde_json::{Value, json};
use sunaba_testkit::{TestApp, Work};

async fn told(app: &TestApp) -> Work {
    let work = app.work("p").await;
    let events: Vec<Value> = (0..60)
        .map(|n| match n % 3 {
            0 => json!({"event_type": "agent.heartbeat", "event_data": {"n": n}}),
            1 => json!({"event_type": "agent.tool_use", "event_data": {"n": n, "turn": n / 10, "tool": "Grep"}}),
            _ => json!({"event_type": "agent.message", "event_data": {"n": n, "turn": n / 10, "content": format!("needle{n}.")}}),
        })
        .collect();
    work.worker.post(&work.path("/events/batch"), json!({"events": events})).await.expect(200);
    work
}

fn numbers(page: &Value) -> Vec<i64> {
    page["events"]
        .as_array()
        .expect("events")
        .iter()
        .filter_map(|event| event["event_data"]["n"].as_i64())
        .collect()
}

#[tokio::test]
async fn every_filter_of_the_list_filters() {
    let app = TestApp::start().await;
    let work = told(&app).await;
    let page = async |query: &str| app.admin.get(&work.path(&format!("/events?{query}"))).await.expect(200);

    let all = page("limit=500").await;
    assert_eq!(all["sandbox_id"], work.sandbox.id.as_str());
    let seqs: Vec<i64> =
        all["events"].as_array().unwrap().iter().map(|e| e["seq"].as_i64().unwrap()).collect();
    assert!(seqs.windows(2).all(|pair| pair[0] == pair[1] + 1), "newest first, no gap: {seqs:?}");
    assert_eq!(all["total_count"], seqs.len());
    let first = &all["events"][0];
    for field in ["id", "seq", "sandbox_id", "event_type", "event_data", "source", "created_at"] {
        assert!(!first[field].is_null(), "{field} is missing: {first}");
    }

    assert_eq!(page("event_type=agent.message&limit=2").await["total_count"], 20);
    assert_eq!(numbers(&page("event_type=agent.message&limit=2").await), [59, 56]);
    assert_eq!(numbers(&page("event_type=agent.message&limit=2&offset=2").await), [53, 50]);
    assert_eq!(
        numbers(&page("event_types=agent.*&exclude_types=agent.heartbeat,agent.tool*&limit=1").await),
        [59]
    );
    assert_eq!(numbers(&page("q=needle5.&limit=5").await), [5]);
    let middle = seqs[30];
    let older = page(&format!("before_seq={middle}&limit=3")).await;
    assert_eq!(older["events"][0]["seq"], middle - 1);
    let newer = page(&format!("after_seq={middle}&limit=500")).await;
    assert_eq!(newer["events"].as_array().unwrap().len(), 30);

    for bad in ["limit=0", "limit=501", "offset=-1", "after_seq=x", "before_seq=1.5"] {
        app.admin.get(&work.path(&format!("/events?{bad}"))).await.expect_problem(422, "validation_failed");
    }
}

#[tokio::test]
async fn the_trajectory_pages_through_the_story_both_ways() {
    let app = TestApp::start().await;
    let work = told(&app).await;
    let page =
        async |query: &str| app.admin.get(&work.path(&format!("/trajectory?{query}"))).await.expect(200);
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let answer = page(&format!("limit=7{cursor}")).await;
        assert_eq!(answer["heartbeat_summary"]["count"], 20);
        seen.extend(numbers(&answer));
        let Some(next) = answer["next_cursor"].as_str().filter(|_| answer["has_more"] == true) else { break };
        cursor = format!("&cursor={next}&direction=older");
    }
    let wanted: Vec<i64> = (0..60).rev().filter(|n| n % 3 == 2).collect();
    assert_eq!(seen, wanted, "no heartbeat, no search noise, nothing twice");

    let with_noise = page("limit=1000&noise=show").await;
    assert_eq!(numbers(&with_noise).len(), 40);
    let oldest = page("limit=1000").await["events"].as_array().unwrap().last().unwrap()["id"].clone();
    let newer = page(&format!("limit=3&cursor={}&direction=newer", oldest.as_str().unwrap())).await;
    assert_eq!(newer["events"].as_array().unwrap().len(), 3);
    assert!(newer["prev_cursor"].is_string(), "{newer}");

    let unknown = app.admin.get(&work.path("/trajectory?cursor=nothing")).await;
    assert!(unknown.status.is_client_error(), "{}", unknown.text);
    for bad in ["direction=up", "noise=maybe", "limit=1001"] {
        app.admin
            .get(&work.path(&format!("/trajectory?{bad}")))
            .await
            .expect_problem(422, "validation_failed");
    }
}

#[tokio::test]
async fn the_outline_shows_turns() {
    let app = TestApp::start().await;
    let work = told(&app).await;
    let outline = app.admin.get(&work.path("/outline")).await.expect(200);
    let turns = outline["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 6, "{outline}");
    let rest = app.admin.get(&work.path("/outline?after=3&limit=1")).await.expect(200);
    assert_eq!(rest["turns"][0]["turn"], 4);
}

#[tokio::test]
async fn a_log_that_was_written_here_is_whole() {
    let app = TestApp::start().await;
    let work = told(&app).await;
    let verdict = app.admin.get(&work.path("/verify")).await.expect(200);
    assert_eq!(verdict["ok"], true);
    let head = app.store.log_head(&work.sandbox.id).await.unwrap();
    assert_eq!(verdict["events"], head.last_seq);
    assert_eq!(verdict["head"], sunaba_types::chain::hex(&head.last_hash));
    assert!(verdict.get("first_bad_seq").is_none());
}

#[tokio::test]
async fn a_log_that_was_changed_is_found_out() {
    let app = TestApp::start().await;
    let work = told(&app).await;
    let bad_seq = app.store.log_head(&work.sandbox.id).await.unwrap().last_seq - 20;
    let forged = format!(
        "UPDATE events SET payload = '{{\"forged\":true}}' WHERE sandbox_id = '{}' AND seq = {bad_seq}",
        work.sandbox.id
    );
    sunaba_testkit::change_row(app.dir.path(), &forged);
    let verdict = app.admin.get(&work.path("/verify")).await.expect(200);
    assert_eq!((&verdict["ok"], &verdict["first_bad_seq"]), (&json!(false), &json!(bad_seq)), "{verdict}");
}
