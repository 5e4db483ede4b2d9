//! What sandboxes may have the server keep: bounded for each of them, and by the disk for all.

use std::path::Path;

use futures::StreamExt as _;
use serde_json::json;
use sunaba_server::RoomLimits;
use sunaba_testkit::{Setup, TestApp, Work, eventually, within};
use sunaba_types::{BlobHash, Resources};

/// A server whose sandboxes may store so many bytes as blobs.
async fn with_blob_bytes(bytes: f64) -> TestApp {
    let disk_bytes = Resources::default().disk_gb * 1_073_741_824.0;
    let room = RoomLimits { blob_disks: bytes / disk_bytes, ..RoomLimits::default() };
    Setup::default().config(|config| config.room = room).start().await
}

/// The files of blobs, whole or not.
fn files(app: &TestApp) -> Vec<String> {
    fn below(dir: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => below(&entry.path(), found),
                _ => found.push(entry.file_name().to_string_lossy().into_owned()),
            }
        }
    }
    let mut found = Vec::new();
    below(&app.path("blobs"), &mut found);
    found
}

#[tokio::test]
async fn the_blobs_of_a_sandbox_have_a_total() {
    let app = with_blob_bytes(1_500_000.0).await;
    let work = app.work("p").await;
    let post = |fill: u8, size: usize| {
        let (worker, path) = (work.worker.clone(), work.path("/blobs"));
        async move { worker.post_raw(&path, vec![fill; size]).await }
    };
    for _ in 0..4 {
        post(1, 600_000).await.expect(201);
    }
    assert_eq!(files(&app).len(), 1, "the same again takes no disk");
    post(2, 600_000).await.expect(201);
    post(3, 600_000).await.expect_problem(507, "blobs_full");
    post(4, 300_000).await.expect(201);
    post(5, 1).await.expect_problem(507, "blobs_full");
    assert_eq!(files(&app).len(), 3, "what was refused is not there");
    // Others are not concerned.
    app.admin.post_raw("/api/v1/blobs", vec![5; 600_000]).await.expect(201);
    let other = app.work("q").await;
    other.worker.post_raw(&other.path("/blobs"), vec![6; 600_000]).await.expect(201);
}

#[tokio::test]
async fn what_a_sandbox_does_not_finish_is_given_back() {
    let app = with_blob_bytes(1_000_000.0).await;
    let work = app.work("p").await;
    for _ in 0..3 {
        let pieces = [Ok(vec![1; 900_000]), Err(std::io::Error::other("gone"))];
        let body = reqwest::Body::wrap_stream(futures::stream::iter(pieces));
        let request = work.worker.request(reqwest::Method::POST, &work.path("/blobs")).body(body);
        request.send().await.unwrap_err();
    }
    eventually("there is room again", || async {
        work.worker.post_raw(&work.path("/blobs"), vec![2; 900_000]).await.status == 201
    })
    .await;
    assert_eq!(files(&app), [BlobHash::of(&vec![2; 900_000]).as_str()]);
}

#[tokio::test]
async fn nothing_is_kept_on_a_disk_that_is_nearly_full() {
    let room = RoomLimits { disk_free_bytes: u64::MAX, ..RoomLimits::default() };
    let app = Setup::default().config(|config| config.room = room).start().await;
    let work = app.work("p").await;
    let refused = work.worker.post_raw(&work.path("/blobs"), "content").await;
    refused.expect_problem(507, "disk_full");
    assert!(refused.text.contains("orchestrator.disk_free_gb"), "{}", refused.text);
    app.admin.post_raw("/api/v1/blobs", "content").await.expect_problem(507, "disk_full");
    assert_eq!(files(&app), Vec::<String>::new());
}

#[tokio::test]
async fn a_log_has_a_total() {
    let room = RoomLimits { log_bytes: 10_000, ..RoomLimits::default() };
    let app = Setup::default().config(|config| config.room = room).start().await;
    let work = app.work("p").await;
    let event = |size: usize| json!({"event_type": "agent.text", "event_data": {"text": "x".repeat(size)}});
    work.worker.post(&work.path("/events"), event(9_000)).await.expect(200);
    let refused = work.worker.post(&work.path("/events"), event(1_000)).await;
    refused.expect_problem(507, "log_full");
    let batch = json!({"events": [event(10), event(1_000)]});
    work.worker.post(&work.path("/events/batch"), batch).await.expect_problem(507, "log_full");
    work.worker.post(&work.path("/events"), event(10)).await.expect(200);
    let other = app.work("q").await;
    other.worker.post(&other.path("/events"), event(9_000)).await.expect(200);
}

/// Loses its place while it sends a blob: the refusal comes when all of it has arrived.
async fn store_too_late(app: &TestApp, work: &Work, content: &'static str) {
    let (send, receive) = tokio::sync::mpsc::unbounded_channel::<Result<&'static str, std::io::Error>>();
    let pieces =
        futures::stream::unfold(receive, |mut receive| async { Some((receive.recv().await?, receive)) });
    let body = reqwest::Body::wrap_stream(pieces.boxed());
    let request = work.worker.request(reqwest::Method::POST, &work.path("/blobs")).body(body);
    let (worker, (first, rest)) = (work.worker.clone(), content.split_at(3));
    send.send(Ok(first)).expect("it is read");
    let answer = tokio::spawn(async move { worker.send(request).await });
    eventually("it arrives", || async { files(app).iter().any(|name| name.starts_with(".new-")) }).await;
    app.supersede(work).await;
    send.send(Ok(rest)).expect("it is read");
    drop(send);
    let answer = within("an answer", answer).await.expect("no panic");
    answer.expect_problem(409, "attempt_superseded");
}

#[tokio::test]
async fn a_blob_that_is_nobodys_is_removed() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    store_too_late(&app, &work, "mine alone").await;
    assert_eq!(files(&app), Vec::<String>::new());
}

#[tokio::test]
async fn a_blob_that_somebody_else_has_stays() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    app.admin.post_raw("/api/v1/blobs", "in common").await.expect(201);
    store_too_late(&app, &work, "in common").await;
    let hash = BlobHash::of(b"in common");
    assert_eq!(files(&app), [hash.as_str()]);
    assert_eq!(app.admin.get(&format!("/api/v1/blobs/{hash}")).await.text, "in common");
}
