//! What may be set on a project, by whom.

use serde_json::{Value, json};
use sunaba_testkit::{Setup, TestApp};

fn fields_of(answer: &sunaba_testkit::Answer) -> Vec<String> {
    let body = answer.json();
    let errors = body["errors"].as_array().cloned().unwrap_or_default();
    errors.iter().map(|error| error["field"].as_str().expect("a field").to_owned()).collect()
}

#[tokio::test]
async fn given_keys_replace_null_clears_and_the_rest_stays() {
    let app = TestApp::start().await;
    let project = app.project("p").await;
    let path = format!("/api/v1/projects/{}", project.id);
    let first = json!({"name": "renamed", "default_branch": "next", "settings": {
        "budget_usd": 2.5, "total_budget_usd": 100, "resources": {"cpu": 1}, "provider": "local",
        "egress": {"preset": "registries", "allow": ["example.org", "*.example.net:8443"]},
        "setup_command": "make deps", "isolation": "strict", "unknown": {"is": "ignored"}}});
    let changed = app.admin.patch(&path, first).await.expect(200);
    assert_eq!((&changed["name"], &changed["default_branch"]), (&json!("renamed"), &json!("next")));
    let second =
        json!({"settings": {"budget_usd": null, "resources": {"memory_gb": 2}, "setup_command": ""}});
    let changed = app.admin.patch(&path, second).await.expect(200);
    let expected = json!({"total_budget_usd": 100.0, "resources": {"memory_gb": 2.0}, "provider": "local",
        "egress": {"preset": "registries", "allow": ["example.org", "*.example.net:8443"]},
        "setup_command": "", "isolation": "strict"});
    assert_eq!(changed["settings"], expected);
    assert_eq!(app.admin.get(&path).await.expect(200), changed);
    assert_eq!(
        app.admin.patch(&path, json!({})).await.expect(200),
        changed,
        "nothing asked, nothing changed"
    );
    app.admin.patch("/api/v1/projects/none", json!({})).await.expect_problem(404, "project_not_found");
}

#[tokio::test]
async fn what_cannot_be_right_is_named_and_nothing_is_changed() {
    let app = TestApp::start().await;
    let project = app.project("p").await;
    let path = format!("/api/v1/projects/{}", project.id);
    let before = app.admin.get(&path).await.expect(200);
    let cases: [(Value, &str); 22] = [
        (json!({"provider": "moon"}), "settings.provider"),
        (json!({"runtime": "abacus"}), "settings.runtime"),
        (json!({"model": ""}), "settings.model"),
        (json!({"model": format!("script:{}", "a".repeat(64))}), "settings.model"),
        (json!({"resources": {"cpu": 0}}), "settings.resources.cpu"),
        (json!({"resources": {"memory_gb": 5000}}), "settings.resources.memory_gb"),
        (json!({"resources": 4}), "settings.resources"),
        (json!({"isolation": "medium"}), "settings.isolation"),
        (json!({"budget_usd": -0.01}), "settings.budget_usd"),
        (json!({"budget_usd": "1"}), "settings.budget_usd"),
        (json!({"total_budget_usd": -1}), "settings.total_budget_usd"),
        (json!({"egress": {"preset": "all"}}), "settings.egress"),
        (json!({"egress": {"allow": ["https://example.org"]}}), "settings.egress"),
        (json!({"setup_egress": {"allow": ["*"]}}), "settings.setup_egress"),
        (json!({"setup_command": "x".repeat(16 * 1024 + 1)}), "settings.setup_command"),
        (json!({"root_fs": "relative"}), "settings.root_fs"),
        (json!({"root_fs": "/"}), "settings.root_fs"),
        (json!({"root_fs": "/no/such/place"}), "settings.root_fs"),
        (json!({"image": "--privileged"}), "settings.image"),
        (json!({"toolchains": ["/etc"]}), "settings.toolchains"),
        (json!({"toolchains": "/opt"}), "settings.toolchains"),
        (json!({"toolchains": vec!["/opt/x"; 51]}), "settings.toolchains"),
    ];
    for (settings, field) in &cases {
        let body = json!({"name": "no", "settings": settings});
        let answer = app.admin.patch(&path, body).await;
        answer.expect_problem(422, "validation_failed");
        assert_eq!(fields_of(&answer), [*field], "{settings}: {}", answer.text);
        let url = json!({"repo_url": "https://h/new.git", "settings": settings});
        let answer = app.admin.post("/api/v1/projects", url).await;
        assert_eq!(fields_of(&answer), [*field], "{settings}: {}", answer.text);
    }
    for (body, field) in [
        (json!({"name": ""}), "name"),
        (json!({"default_branch": "-x"}), "default_branch"),
        (json!({"settings": []}), "settings"),
    ] {
        assert_eq!(fields_of(&app.admin.patch(&path, body).await), [field]);
    }
    assert_eq!(app.admin.get(&path).await.expect(200), before);
    let list = app.admin.get("/api/v1/projects").await.expect(200);
    assert_eq!(list["projects"].as_array().unwrap().len(), 1, "nothing was made either");
}

#[tokio::test]
async fn the_host_and_its_walls_are_an_administrators() {
    let dir = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let protected = dir.path().join("blobs");
    let setup = Setup::default().config(move |config| config.protected_paths = vec![protected]);
    let app = setup.start_in(dir).await;
    let project = app.project("p").await;
    let path = format!("/api/v1/projects/{}", project.id);
    let editor = app.personal(&["read", "write"], &[&project.id]).await;
    let reader = app.personal(&["read"], &[&project.id]).await;
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap().display().to_string();
    let set = |settings: Value| json!({"settings": settings});
    for (settings, code) in [
        (json!({"toolchains": ["/opt/go"]}), "toolchains_admin_only"),
        (json!({"root_fs": root}), "root_fs_admin_only"),
        (json!({"image": "debian:13"}), "image_admin_only"),
        (json!({"isolation": "any"}), "isolation_admin_only"),
    ] {
        editor.patch(&path, set(settings.clone())).await.expect_problem(403, code);
        let made = json!({"repo_url": "https://h/x.git", "settings": settings});
        let person = app.personal(&["read", "write"], &[]).await;
        person.post("/api/v1/projects", made).await.expect_problem(403, code);
        app.admin.patch(&path, set(settings)).await.expect(200);
    }
    let blobs = app.path("blobs");
    std::fs::create_dir_all(&blobs).unwrap();
    app.admin.patch(&path, set(json!({"root_fs": blobs}))).await.expect_problem(422, "validation_failed");
    // What an administrator has set stays, and is no reason to refuse the rest.
    let ordinary = json!({"budget_usd": 1, "egress": {"preset": "open"}, "provider": "local",
        "image": "debian:13", "isolation": "sampled"});
    let changed = editor.patch(&path, set(ordinary)).await.expect(200);
    assert_eq!(changed["settings"]["toolchains"], json!(["/opt/go"]));
    assert_eq!(changed["settings"]["root_fs"], json!(root));
    editor.patch(&path, set(json!({"isolation": "any"}))).await.expect_problem(403, "isolation_admin_only");
    editor.patch(&path, set(json!({"image": null}))).await.expect_problem(403, "image_admin_only");
    reader.patch(&path, json!({"name": "x"})).await.expect_problem(403, "scope_missing");
}

#[tokio::test]
async fn changes_at_the_same_moment_are_all_kept() {
    let app = TestApp::start().await;
    let project = app.project("p").await;
    let path = format!("/api/v1/projects/{}", project.id);
    let change = |settings: Value| {
        let (admin, path) = (app.admin.clone(), path.clone());
        async move { admin.patch(&path, json!({"settings": settings})).await.expect(200) }
    };
    tokio::join!(
        change(json!({"budget_usd": 1})),
        change(json!({"total_budget_usd": 2})),
        change(json!({"setup_command": "three"})),
        change(json!({"model": "four"}))
    );
    let settings = &app.admin.get(&path).await.expect(200)["settings"];
    let all = json!({"budget_usd": 1.0, "total_budget_usd": 2.0, "setup_command": "three", "model": "four"});
    assert_eq!(*settings, all);
}
