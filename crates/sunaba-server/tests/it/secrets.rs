//! Secrets go in and never come out again.

use serde_json::json;
use sunaba_secrets::{SecretKey, Secrets, Vault};
use sunaba_store::SECRETS_MAX;
use sunaba_testkit::{Setup, TestApp};

const VALUE: &str = "sk-hush-0815";

#[tokio::test]
async fn a_secret_is_set_replaced_listed_by_name_and_deleted() {
    let app = TestApp::start().await;
    let project = app.project("p").await;
    let path = format!("/api/v1/projects/{}", project.id);
    let secret = |name: &str| format!("{path}/secrets/{name}");
    let mut feed = app.watch(&app.admin, "").await;
    let set = app.admin.put(&secret("MODEL_KEY"), json!({"value": "old"})).await.expect(200);
    assert!(
        set["name"] == "MODEL_KEY" && set["updated_at"].is_string() && set.get("value").is_none(),
        "{set}"
    );
    let set = app.admin.put(&secret("MODEL_KEY"), json!({"value": VALUE})).await;
    let listed = app.admin.get(&format!("{path}/secrets")).await;
    assert_eq!(listed.expect(200)["secrets"][0], set.expect(200));
    let shown = app.admin.get(&path).await;
    assert_eq!(shown.expect(200)["secrets"], json!(["MODEL_KEY"]));
    app.admin.patch(&path, json!({"name": "other"})).await.expect(200);
    let mut frame = feed.next_event().await.unwrap();
    // The feed may still have had the project's making before it.
    if frame["event_type"] == "PROJECT_CREATED" {
        frame = feed.next_event().await.unwrap();
    }
    assert_eq!(frame["event_type"], "PROJECT_UPDATED");
    for text in [set.text, listed.text, shown.text, frame.to_string()] {
        assert!(!text.contains(VALUE), "{text}");
    }
    let sealed = app.store.find_secret(&project.id, "MODEL_KEY").await.unwrap().unwrap();
    assert!(!sealed.windows(4).any(|bytes| VALUE.as_bytes().windows(4).any(|part| part == bytes)));
    assert_eq!(app.admin.delete(&secret("MODEL_KEY")).await.status, 204);
    app.admin.delete(&secret("MODEL_KEY")).await.expect_problem(404, "secret_not_found");
    assert_eq!(app.admin.get(&path).await.expect(200)["secrets"], json!([]));
}

#[tokio::test]
async fn what_is_no_secret_is_refused() {
    let app = TestApp::start().await;
    let project = app.project("p").await;
    let path = format!("/api/v1/projects/{}/secrets", project.id);
    for name in ["lower", "1A", "_A", "A-B", "A%20B", "%C3%84", &"A".repeat(101)] {
        let answer = app.admin.put(&format!("{path}/{name}"), json!({"value": "x"})).await;
        answer.expect_problem(422, "validation_failed");
        assert_eq!(answer.json()["errors"][0]["field"], "name");
    }
    for value in [
        json!(null),
        json!(""),
        json!(7),
        json!("x".repeat(64 * 1024 + 1)),
        json!("ü".repeat(40_000)),
        json!("\u{0}"),
    ] {
        let answer = app.admin.put(&format!("{path}/A"), json!({"value": value})).await;
        answer.expect_problem(422, "validation_failed");
        assert_eq!(answer.json()["errors"][0]["field"], "value");
    }
    assert_eq!(app.admin.get(&path).await.expect(200)["secrets"], json!([]));
    app.admin
        .put(&format!("{path}/{}", "A".repeat(100)), json!({"value": "x".repeat(64 * 1024)}))
        .await
        .expect(200);
    for n in 1..SECRETS_MAX {
        app.admin.put(&format!("{path}/K{n}"), json!({"value": "x"})).await.expect(200);
    }
    app.admin
        .put(&format!("{path}/MORE"), json!({"value": "x"}))
        .await
        .expect_problem(409, "too_many_secrets");
    let nowhere = "/api/v1/projects/none/secrets/A";
    app.admin.put(nowhere, json!({"value": "x"})).await.expect_problem(404, "project_not_found");
}

#[tokio::test]
async fn who_may_not_write_sets_none_and_another_tenant_sees_none() {
    let app = TestApp::start().await;
    let (mine, theirs) = (app.project("mine").await, app.project("theirs").await);
    let secret = |id: &sunaba_types::ProjectId| format!("/api/v1/projects/{id}/secrets/A_KEY");
    app.admin.put(&secret(&theirs.id), json!({"value": VALUE})).await.expect(200);
    let tenant = app.personal(&["read", "write"], &[&mine.id]).await;
    tenant.put(&secret(&mine.id), json!({"value": "x"})).await.expect(200);
    tenant.put(&secret(&theirs.id), json!({"value": "x"})).await.expect_problem(404, "project_not_found");
    tenant.delete(&secret(&theirs.id)).await.expect_problem(404, "project_not_found");
    tenant
        .get(&format!("/api/v1/projects/{}/secrets", theirs.id))
        .await
        .expect_problem(404, "project_not_found");
    let reader = app.personal(&["read"], &[&mine.id]).await;
    reader.put(&secret(&mine.id), json!({"value": "x"})).await.expect_problem(403, "scope_missing");
    reader.delete(&secret(&mine.id)).await.expect_problem(403, "scope_missing");
    reader.get(&format!("/api/v1/projects/{}/secrets", mine.id)).await.expect(200);
    let held = app.state.parts.secrets.as_ref().unwrap().find(&theirs.id, "A_KEY").await.unwrap().unwrap();
    assert_eq!(sunaba_secrets::ExposeSecret::expose_secret(&held), VALUE, "untouched");
}

#[tokio::test]
async fn without_a_key_nothing_is_stored_in_the_clear() {
    let app = Setup::default().without_vault().start().await;
    let project = app.project("p").await;
    let path = format!("/api/v1/projects/{}/secrets", project.id);
    let answer = app.admin.put(&format!("{path}/A"), json!({"value": VALUE})).await;
    answer.expect_problem(503, "secrets_unavailable");
    assert!(answer.text.contains("SUNABA_SECRET_KEY") && !answer.text.contains(VALUE), "{}", answer.text);
    assert_eq!(app.admin.get(&path).await.expect(200)["secrets"], json!([]));
}

#[tokio::test]
async fn another_key_is_refused_and_leaves_everything_as_it_was() {
    let app = TestApp::start().await;
    let project = app.project("p").await;
    let path = format!("/api/v1/projects/{}/secrets/A", project.id);
    app.admin.put(&path, json!({"value": VALUE})).await.expect(200);
    let check = app.store.find_setting("secret_check").await.unwrap();
    assert!(check.is_some());
    let elsewhere = tempfile::tempdir().unwrap();
    let other = SecretKey::read_or_make(&elsewhere.path().join("other.key")).unwrap();
    let refused = Secrets::open(app.store.clone(), Vault::new(&other)).await.unwrap_err();
    assert!(matches!(refused, sunaba_secrets::Error::WrongKey(_)));
    assert!(refused.to_string().contains("SUNABA_SECRET_KEY"), "{refused}");
    assert_eq!(app.store.find_setting("secret_check").await.unwrap(), check);
    let right = SecretKey::read(&app.path("secret.key")).unwrap();
    let again = Secrets::open(app.store.clone(), Vault::new(&right)).await.unwrap();
    let value = again.find(&project.id, "A").await.unwrap().unwrap();
    assert_eq!(sunaba_secrets::ExposeSecret::expose_secret(&value), VALUE);
    assert!(again.find(&project.id, "B").await.unwrap().is_none());
}
