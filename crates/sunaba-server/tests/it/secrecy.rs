//! No token is ever in a log line.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::json;
use sunaba_testkit::TestApp;
use tracing_subscriber::fmt::MakeWriter;

const SECRET: &str = "hush-hush-4711";

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no writer panicked").extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Captured {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn no_token_is_in_any_line_of_the_log() {
    let captured = Captured::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_env_filter(tracing_subscriber::EnvFilter::new(
            "off,sunaba_server=trace,sunaba_store_sqlite=trace,sunaba_store_postgres=trace",
        ))
        .with_writer(captured.clone())
        .finish();
    // While there is only one subscriber, a line that is first reached on another test's thread, which has none,
    // is taken for one that nobody wants.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    // The test's runtime has one thread, so everything the server does is logged through this.
    let _guard = tracing::subscriber::set_default(subscriber);
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let token = work.worker.token.clone().unwrap();
    let anyone = app.anonymous();
    let event = json!({"event_type": "x"});
    anyone.post(&format!("/w/{token}{}", work.path("/events")), event.clone()).await.expect(200);
    anyone
        .post(&format!("/w/{token}/nowhere?token={token}"), event)
        .await
        .expect_problem(404, "no_such_route");
    anyone
        .get(&format!("{}?token={token}", work.path("/events/stream")))
        .await
        .expect_problem(403, "not_for_sandboxes");
    anyone.get(&format!("/api/v1/{token}")).await.expect_problem(401, "unauthorized");
    let mut feed = app.watch(&anyone, &format!("token={token}")).await;
    while feed.next().await.is_some() {}
    let made = app.admin.post("/api/v1/tokens", json!({"name": "x"})).await.expect(201);
    let secret_path = format!("/api/v1/projects/{}/secrets/API_KEY", work.project.id);
    for body in
        [json!({"value": SECRET}), json!({"value": [SECRET]}), json!({"value": format!("{SECRET}\u{0}")})]
    {
        let answer = app.admin.put(&secret_path, body).await;
        assert!(!answer.text.contains(SECRET), "{}", answer.text);
    }
    let broken =
        app.admin.request(reqwest::Method::PUT, &secret_path).header("content-type", "application/json");
    let answer = app.admin.send(broken.body(format!("{{\"value\": {SECRET}}}"))).await;
    assert!(answer.status == 400 && !answer.text.contains(SECRET), "{}", answer.text);
    let env =
        json!({"project_id": work.project.id.as_str(), "prompt": "x", "env": {"PATH": SECRET, "OK": SECRET}});
    let answer = app.admin.post("/api/v1/sandboxes", env).await;
    assert!(answer.status == 422 && !answer.text.contains(SECRET), "{}", answer.text);
    app.store.close().await;
    app.admin.put(&secret_path, json!({"value": SECRET})).await;
    app.admin.get(&work.path("")).await;
    app.admin.with_token(made["token"].as_str()).get(&work.path("")).await;

    let log = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("/w/***/api/v1/sandboxes/"), "requests are logged: {log}");
    let secrets = [token.as_str(), app.admin.token.as_deref().unwrap(), made["token"].as_str().unwrap()];
    assert!(!log.contains(SECRET), "a secret's value is in the log");
    for secret in secrets {
        let bare = secret.rsplit('_').next().unwrap();
        assert!(!log.contains(bare), "a token is in the log");
    }
}
