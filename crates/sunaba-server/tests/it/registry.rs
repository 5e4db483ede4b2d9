//! Projects, tickets, tasks and sandboxes are made and ended.

use serde_json::json;
use sunaba_testkit::TestApp;

#[tokio::test]
async fn a_project_is_made_once_for_a_repository() {
    let app = TestApp::start().await;
    let path = app.repository("app").display().to_string();
    let made = app.admin.post("/api/v1/projects", json!({"repo_path": path})).await.expect(200);
    assert_eq!((&made["name"], &made["default_branch"]), (&json!("app"), &json!("main")));
    let again =
        app.admin.post("/api/v1/projects", json!({"repo_path": format!("{path}/"), "name": "other"})).await;
    assert_eq!(again.expect(200)["id"], made["id"]);
    let id = made["id"].as_str().unwrap();
    assert_eq!(app.admin.get(&format!("/api/v1/projects/{id}")).await.expect(200), made);
    let list = app.admin.get("/api/v1/projects").await.expect(200);
    assert_eq!(list["projects"].as_array().unwrap().len(), 1);
    let bad_places = [
        json!({}),
        json!({"repo_path": "relative"}),
        json!({"repo_path": "/no/such/place"}),
        json!({"repo_path": app.dir.path().display().to_string()}),
        json!({"repo_path": path, "repo_url": "https://h/x"}),
        json!({"repo_url": "https://user:secret@h/x"}),
        json!({"repo_path": path, "default_branch": "-x"}),
        json!({"repo_path": path, "settings": {"toolchains": ["relative"]}}),
    ];
    for body in bad_places {
        app.admin.post("/api/v1/projects", body).await.expect_problem(422, "validation_failed");
    }
}

#[tokio::test]
async fn a_prompt_alone_makes_ticket_task_and_sandbox() {
    let app = TestApp::start().await;
    let project = app.project("p").await;
    let body = json!({"project_id": project.id.as_str(), "prompt": "Add a flag\nand test it"});
    let sandbox = app.admin.post("/api/v1/sandboxes", body).await.expect(201);
    assert_eq!((&sandbox["state"], &sandbox["attempt"]), (&json!("pending"), &json!(1)));
    assert_eq!(sandbox["prompt"], "Add a flag\nand test it");
    let id = sandbox["id"].as_str().unwrap();
    let task = app.admin.get(&format!("/api/v1/sandboxes/{id}/task")).await.expect(200);
    assert_eq!((&task["title"], &task["status"]), (&json!("Add a flag"), &json!("assigned")));
    for field in [
        "id",
        "ticket_id",
        "phase_id",
        "task_type",
        "description",
        "priority",
        "sandbox_id",
        "assigned_agent_id",
    ] {
        assert!(task.get(field).is_some(), "{field}: {task}");
    }
    let ticket = task["ticket_id"].as_str().unwrap();
    assert_eq!(
        app.admin.get(&format!("/api/v1/tickets/{ticket}")).await.expect(200)["project_id"],
        project.id.as_str()
    );
    let again = json!({"task_id": task["id"]});
    app.admin.post("/api/v1/sandboxes", again).await.expect_problem(409, "task_not_ready");
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_made_is_refused() {
    let app = TestApp::start().await;
    let project = app.project("p").await;
    let with = |extra: serde_json::Value| {
        let mut body = json!({"project_id": project.id.as_str(), "prompt": "x"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body
    };
    let bodies = [
        json!({}),
        json!({"project_id": project.id.as_str()}),
        with(json!({"provider": "moon"})),
        with(json!({"runtime": "unknown"})),
        with(json!({"model": "script:nothing"})),
        with(json!({"model": format!("script:{}", "a".repeat(64))})),
        with(json!({"env": {"SANDBOX_TOKEN": "b"}})),
        with(json!({"resume_session_id": "s"})),
        with(json!({"fork": true})),
        with(json!({"resources": {"cpu": -1}})),
        with(json!({"prompt": ""})),
    ];
    for body in bodies {
        let answer = app.admin.post("/api/v1/sandboxes", body.clone()).await;
        assert_eq!(answer.code(), "validation_failed", "{body}: {}", answer.text);
    }
    let tasks = app.admin.get("/api/v1/tasks").await.expect(200);
    assert_eq!(tasks["tasks"], json!([]), "a refused request leaves nothing behind");
    let script = app.admin.post_raw("/api/v1/blobs", "turns: []").await.expect(201);
    let model = format!("script:{}", script["hash"].as_str().unwrap());
    let made =
        app.admin.post("/api/v1/sandboxes", with(json!({"model": model, "resources": {"cpu": 1}}))).await;
    assert_eq!(made.expect(201)["resources"]["cpu"], 1.0);
}

#[tokio::test]
async fn a_person_ends_a_sandbox_and_its_task() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let ended = app.admin.delete(&work.path("")).await.expect(200);
    assert_eq!(ended["state"], "cancelled");
    assert_eq!(app.admin.delete(&work.path("")).await.expect(200)["state"], "cancelled", "twice is harmless");
    let task = app.admin.get(&format!("/api/v1/tasks/{}", work.task.id)).await.expect(200);
    assert_eq!(task["status"], "cancelled");
    let other = app.work("q").await;
    other.say("agent.failed", json!({"error": "boom"})).await;
    app.admin.delete(&other.path("")).await.expect_problem(409, "illegal_transition");
}

#[tokio::test]
async fn lists_filter_and_page() {
    let app = TestApp::start().await;
    let (one, two) = (app.work("one").await, app.work("two").await);
    app.admin.delete(&two.path("")).await.expect(200);
    let ids = async |query: &str| -> Vec<String> {
        let list = app.admin.get(&format!("/api/v1/sandboxes?{query}")).await.expect(200);
        list["sandboxes"].as_array().unwrap().iter().map(|s| s["id"].as_str().unwrap().to_owned()).collect()
    };
    let (first, second) = (one.sandbox.id.to_string(), two.sandbox.id.to_string());
    assert_eq!(ids("").await, [second.clone(), first.clone()]);
    assert_eq!(ids("state=creating,running").await, std::slice::from_ref(&first));
    assert_eq!(ids(&format!("project_id={}", two.project.id)).await, std::slice::from_ref(&second));
    assert_eq!(ids(&format!("task_id={}", one.task.id)).await, std::slice::from_ref(&first));
    assert_eq!(ids(&format!("limit=1&before={second}")).await, [first]);
    app.admin.get("/api/v1/sandboxes?state=asleep").await.expect_problem(422, "validation_failed");
    let tasks = app.admin.get("/api/v1/tasks?status=cancelled").await.expect(200);
    assert_eq!(tasks["tasks"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn tickets_and_tasks_are_made_by_hand_too() {
    let app = TestApp::start().await;
    let project = app.project("p").await;
    let body = json!({"project_id": project.id.as_str(), "title": "T", "type": "bug", "priority": "HIGH"});
    let ticket = app.admin.post("/api/v1/tickets", body).await.expect(201);
    assert_eq!((&ticket["type"], &ticket["priority"]), (&json!("bug"), &json!("HIGH")));
    let task =
        app.admin.post("/api/v1/tasks", json!({"ticket_id": ticket["id"], "title": "do"})).await.expect(201);
    assert_eq!((&task["status"], &task["description"]), (&json!("pending"), &json!("do")));
    let sandbox = app.admin.post("/api/v1/sandboxes", json!({"task_id": task["id"]})).await.expect(201);
    assert_eq!((&sandbox["prompt"], &sandbox["project_id"]), (&json!("do"), &json!(project.id.as_str())));
    app.admin.post("/api/v1/tickets", json!({"title": 1})).await.expect_problem(422, "validation_failed");
    app.admin
        .post("/api/v1/tasks", json!({"ticket_id": "none", "title": "x"}))
        .await
        .expect_problem(404, "ticket_not_found");
}

#[tokio::test]
async fn the_servers_disk_is_for_administrators() {
    let dir = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let protected = dir.path().to_owned();
    let setup = sunaba_testkit::Setup::default().config(move |c| c.protected_paths = vec![protected]);
    let app = setup.start_in(dir).await;
    let person = app.personal(&["read", "write"], &[]).await;
    let path = app.repository("p").display().to_string();
    let by_path = json!({"repo_path": path});
    person.post("/api/v1/projects", by_path.clone()).await.expect_problem(403, "repo_path_admin_only");
    let nowhere = json!({"repo_path": "/no/such/place"});
    person.post("/api/v1/projects", nowhere).await.expect_problem(403, "repo_path_admin_only");
    let url = |tools: &str| json!({"repo_url": "https://h/x.git", "settings": {"toolchains": [tools]}});
    person.post("/api/v1/projects", url("/opt/go")).await.expect_problem(403, "toolchains_admin_only");
    // An address is not looked up, and nothing is fetched yet.
    person.post("/api/v1/projects", json!({"repo_url": "https://9.9.9.9/y.git"})).await.expect(200);
    for elsewhere in [
        "http://9.9.9.9/y.git",
        "ssh://git@9.9.9.9/y.git",
        "https://127.0.0.1/y.git",
        "https://localhost:8443/y.git",
        "https://169.254.169.254/latest",
        "https://[::ffff:10.0.0.1]/y.git",
    ] {
        let refused = person.post("/api/v1/projects", json!({"repo_url": elsewhere})).await;
        refused.expect_problem(403, "repo_url_admin_only");
        app.admin.post("/api/v1/projects", json!({"repo_url": elsewhere})).await.expect(200);
    }
    let odd = json!({"repo_url": "https://0x7f000001/y.git"});
    person.post("/api/v1/projects", odd).await.expect_problem(422, "validation_failed");
    for bad in [
        "/",
        "/etc/ssl",
        "/proc",
        &app.path("blobs").display().to_string(),
        &app.dir.path().display().to_string(),
    ] {
        app.admin.post("/api/v1/projects", url(bad)).await.expect_problem(422, "validation_failed");
    }
    let made = app.admin.post("/api/v1/projects", by_path.clone()).await.expect(200);
    app.admin.post("/api/v1/projects", url("/opt/go")).await.expect(200);
    assert_eq!(person.post("/api/v1/projects", by_path.clone()).await.expect(200)["id"], made["id"]);
    let with_slash = json!({"repo_path": format!("{path}/")});
    assert_eq!(person.post("/api/v1/projects", with_slash).await.expect(200)["id"], made["id"]);
    let other = app.project("other").await;
    let stranger = app.personal(&["read", "write"], &[&other.id]).await;
    stranger.post("/api/v1/projects", by_path).await.expect_problem(403, "all_projects_only");
    let own = json!({"repo_path": other.repo_path});
    assert_eq!(stranger.post("/api/v1/projects", own).await.expect(200)["id"], other.id.as_str());
}

#[tokio::test]
async fn texts_for_the_agent_are_bounded_by_bytes() {
    let app = TestApp::start().await;
    let project = app.project("p").await;
    let id = project.id.as_str();
    let (fits, over) = ("ä".repeat(50 * 1024), "ä".repeat(50 * 1024) + "x");
    let refused = async |path: &str, body: serde_json::Value| {
        app.admin.post(path, body).await.expect_problem(422, "validation_failed");
    };
    refused("/api/v1/sandboxes", json!({"project_id": id, "prompt": over})).await;
    app.admin.post("/api/v1/sandboxes", json!({"project_id": id, "prompt": fits})).await.expect(201);
    refused("/api/v1/tickets", json!({"project_id": id, "title": "t", "description": over})).await;
    refused("/api/v1/tickets", json!({"project_id": id, "title": "🦀".repeat(257)})).await;
    let ticket = json!({"project_id": id, "title": "🦀".repeat(256), "description": fits});
    let ticket = app.admin.post("/api/v1/tickets", ticket).await.expect(201);
    refused("/api/v1/tasks", json!({"ticket_id": ticket["id"], "title": "t", "description": over})).await;
    refused("/api/v1/tasks", json!({"ticket_id": ticket["id"], "title": "🦀".repeat(257)})).await;
    app.admin
        .post("/api/v1/tasks", json!({"ticket_id": ticket["id"], "title": "t", "description": fits}))
        .await
        .expect(201);
}

#[tokio::test]
async fn a_script_of_somebody_else_cannot_be_used() {
    let app = TestApp::start().await;
    let (mine, theirs) = (app.work("mine").await, app.work("theirs").await);
    let blob = theirs.worker.post_raw(&theirs.path("/blobs"), "turns: []").await.expect(201);
    let model = format!("script:{}", blob["hash"].as_str().unwrap());
    let tenant = app.personal(&["read", "write"], &[&mine.project.id]).await;
    let body = json!({"project_id": mine.project.id.as_str(), "prompt": "x", "model": model});
    tenant.post("/api/v1/sandboxes", body.clone()).await.expect_problem(422, "validation_failed");
    app.admin.post("/api/v1/sandboxes", body.clone()).await.expect(201);
    mine.worker.post_raw(&mine.path("/blobs"), "turns: []").await.expect(201);
    tenant.post("/api/v1/sandboxes", body).await.expect(201);
}
