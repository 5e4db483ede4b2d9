//! The document is part of the interface: a change to it is seen.

use sunaba_testkit::TestApp;

#[tokio::test]
async fn the_document_is_as_it_was_reviewed() {
    let app = TestApp::start().await;
    let served = app.admin.get("/api/openapi.json").await.expect(200);
    assert_eq!(served["openapi"], "3.1.0");
    let document = serde_json::to_value(sunaba_server::openapi_document()).unwrap();
    assert_eq!(served, document);
    insta::assert_json_snapshot!("openapi", document);
}
