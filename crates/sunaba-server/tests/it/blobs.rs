//! Blobs: whole or absent, for those who may see their owner.

use sunaba_testkit::TestApp;
use sunaba_types::BlobHash;

#[tokio::test]
async fn what_was_stored_is_read_back() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let content = vec![7u8; 300_000];
    let stored = work.worker.post_raw(&work.path("/blobs"), content.clone()).await.expect(201);
    let hash = BlobHash::of(&content);
    assert_eq!(
        (stored["hash"].as_str(), stored["size_bytes"].as_u64()),
        (Some(hash.as_str()), Some(300_000))
    );
    let read = app.admin.get(&format!("/api/v1/blobs/{hash}")).await;
    read.expect(200);
    assert_eq!(read.text.as_bytes(), content);
    assert_eq!(read.header("content-type"), "application/octet-stream");
    assert_eq!(std::fs::read(app.path(format!("blobs/{}/{hash}", &hash.as_str()[..2]))).unwrap(), content);
    work.worker.post_raw(&work.path("/blobs"), content).await.expect(201);
    let left: Vec<_> = std::fs::read_dir(app.path("blobs")).unwrap().collect();
    assert_eq!(left.len(), 1, "no unfinished file is left: {left:?}");
}

#[tokio::test]
async fn an_operators_blob_is_for_those_who_see_everything() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let stored = app.admin.post_raw("/api/v1/blobs", "script").await.expect(201);
    let path = format!("/api/v1/blobs/{}", stored["hash"].as_str().unwrap());
    app.personal(&["read"], &[]).await.get(&path).await.expect(200);
    app.personal(&["read"], &[&work.project.id]).await.get(&path).await.expect_problem(404, "blob_not_found");
    work.worker.get(&path).await.expect_problem(403, "not_for_sandboxes");
    work.worker.post_raw(&work.path("/blobs"), "script").await.expect(201);
    let tenant = app.personal(&["read"], &[&work.project.id]).await;
    assert_eq!(tenant.get(&path).await.text, "script", "its own sandbox stored the same");
    app.admin.get(&format!("/api/v1/blobs/{}", "0".repeat(64))).await.expect_problem(404, "blob_not_found");
    app.admin.get("/api/v1/blobs/xyz").await.expect_problem(422, "validation_failed");
}

#[tokio::test]
async fn a_blob_that_is_too_large_leaves_nothing() {
    let app = TestApp::start().await;
    let large = vec![0u8; sunaba_types::limits::BLOB_MAX_BYTES + 1];
    app.admin.post_raw("/api/v1/blobs", large).await.expect_problem(413, "blob_too_large");
    assert_eq!(std::fs::read_dir(app.path("blobs")).unwrap().count(), 0);
}

#[tokio::test]
async fn what_an_earlier_server_left_unfinished_is_removed() {
    let app = TestApp::start().await;
    app.admin.post_raw("/api/v1/blobs", "whole").await.expect(201);
    let dir = app.stop().await;
    std::fs::write(dir.path().join("blobs/.new-0123"), "half").unwrap();
    let app = sunaba_testkit::Setup::default().start_in(dir).await;
    assert!(!app.path("blobs/.new-0123").exists());
    app.admin.get(&format!("/api/v1/blobs/{}", BlobHash::of(b"whole"))).await.expect(200);
}
