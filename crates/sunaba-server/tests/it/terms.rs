//! On what terms sandboxes are made, and what a provider cannot give.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use sunaba_server::{ProviderReport, ProviderReports};
use sunaba_testkit::{Setup, TestApp};
use sunaba_types::{
    Enforcement, ExecutionConfig, Finding, FindingStatus, Isolation, IsolationWanted, PermissionMode,
    ProjectSettings, QuestionPolicy, Resources, ResourcesWanted,
};

/// A host as a test wants it.
#[derive(Debug)]
struct Host {
    reports: Vec<ProviderReport>,
    asked: AtomicUsize,
}

#[async_trait::async_trait]
impl ProviderReports for Host {
    async fn report(&self) -> Vec<ProviderReport> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.reports.clone()
    }
}

fn local() -> ProviderReport {
    ProviderReport {
        name: "local".to_owned(),
        available: true,
        isolation: Some(Isolation {
            namespaces: true,
            own_uid: true,
            network_closed: true,
            seccomp: true,
            memory: Enforcement::Kernel,
            cpu: Enforcement::Kernel,
            pids: Enforcement::Sampled,
            disk: Enforcement::Sampled,
        }),
        capacity: Some(Resources { memory_gb: 3.5, cpu: 8.0, disk_gb: 100.0 }),
        findings: vec![Finding {
            name: "cgroup pids".to_owned(),
            status: FindingStatus::Weaker,
            detail: "no controller at /sys/fs/cgroup".to_owned(),
            remedy: Some("mount it".to_owned()),
        }],
        agents: None,
    }
}

async fn on_host(reports: Vec<ProviderReport>) -> (TestApp, Arc<Host>) {
    let host = Arc::new(Host { reports, asked: AtomicUsize::new(0) });
    let shared = Arc::clone(&host);
    let setup = Setup::default()
        .config(|config| {
            config.providers = ["local", "docker", "external"].map(str::to_owned).to_vec();
            config.default_budget_usd = Some(10.0);
            config.default_timeout_seconds = Some(3600);
        })
        .compose(move |parts| parts.providers = Some(shared));
    (setup.start().await, host)
}

fn body(project: &sunaba_types::Project, extra: Value) -> Value {
    let mut body = json!({"project_id": project.id.as_str(), "prompt": "x"});
    let extra = extra.as_object().expect("an object").clone();
    body.as_object_mut().expect("an object").extend(extra);
    body
}

#[tokio::test]
async fn the_call_counts_before_the_project_and_that_before_the_server() {
    let (app, _) = on_host(vec![local()]).await;
    let plain = app.project("plain").await;
    let settings = ProjectSettings {
        budget_usd: Some(5.0),
        isolation: Some(IsolationWanted::Any),
        provider: Some("external".to_owned()),
        resources: Some(ResourcesWanted { cpu: Some(1.0), disk_gb: Some(20.0), memory_gb: None }),
        model: Some("large".to_owned()),
        ..ProjectSettings::default()
    };
    let set = app.project_with("set", settings).await;
    let make = async |body: Value| app.admin.post("/api/v1/sandboxes", body).await.expect(201);
    let made = make(body(&plain, json!({}))).await;
    let terms = json!({"budget_usd": 10.0, "timeout_seconds": 3600, "isolation": "sampled", "env": [], "execution_config": {},
        "forked_from": null, "forked_at": null});
    assert_eq!((&made["terms"], &made["provider"]), (&terms, &json!("local")));
    assert_eq!(
        made["resources"],
        json!({"memory_gb": 3.5, "cpu": 2.0, "disk_gb": 8.0}),
        "as far as the host goes"
    );
    assert_eq!(
        (&made["cost_usd"], &made["exit"], &made["egress"]),
        (&json!(0.0), &json!(null), &json!(null))
    );
    let made = make(body(&set, json!({}))).await;
    let terms = json!({"budget_usd": 5.0, "timeout_seconds": 3600, "isolation": "any", "env": [], "execution_config": {},
        "forked_from": null, "forked_at": null});
    assert_eq!(
        (&made["terms"], &made["provider"], &made["model"]),
        (&terms, &json!("external"), &json!("large"))
    );
    assert_eq!(made["resources"], json!({"memory_gb": 4.0, "cpu": 1.0, "disk_gb": 20.0}));
    let all = json!({"budget_usd": 0, "timeout_seconds": 7, "isolation": "sampled", "provider": "local",
        "env": {"B": "value-of-b", "A": ""}, "resources": {"cpu": 0.5, "memory_gb": 1}});
    let made = make(body(&set, all)).await;
    let terms = json!({"budget_usd": 0.0, "timeout_seconds": 7, "isolation": "sampled", "env": ["A", "B"], "execution_config": {},
        "forked_from": null, "forked_at": null});
    assert_eq!((&made["terms"], &made["provider"]), (&terms, &json!("local")));
    assert_eq!(made["resources"], json!({"memory_gb": 1.0, "cpu": 0.5, "disk_gb": 20.0}));
    let id = made["id"].as_str().unwrap();
    let shown = app.admin.get(&format!("/api/v1/sandboxes/{id}")).await;
    assert!(!shown.text.contains("value-of-b"), "names only: {}", shown.text);
    let held = app.store.find_sandbox(&id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(held.terms.env["B"], "value-of-b");
}

#[tokio::test]
async fn what_cannot_be_given_is_refused_and_leaves_nothing_behind() {
    let weak = Isolation { seccomp: false, disk: Enforcement::None, ..local().isolation.unwrap() };
    let docker = ProviderReport {
        name: "docker".to_owned(),
        available: false,
        isolation: None,
        capacity: None,
        findings: vec![Finding {
            name: "docker daemon".to_owned(),
            status: FindingStatus::Missing,
            detail: "/var/run/docker.sock does not answer".to_owned(),
            remedy: None,
        }],
        agents: None,
    };
    let (app, host) = on_host(vec![ProviderReport { isolation: Some(weak), ..local() }, docker]).await;
    let project = app.project("p").await;
    let ask = async |extra: Value| app.admin.post("/api/v1/sandboxes", body(&project, extra)).await;
    let unknown = ask(json!({"provider": "moon"})).await;
    unknown.expect_problem(422, "validation_failed");
    assert!(unknown.text.contains("local, docker, external"), "{}", unknown.text);
    let many =
        ask(json!({"isolation": "any", "resources": {"memory_gb": 64, "cpu": 8, "disk_gb": 101}})).await;
    many.expect_problem(422, "validation_failed");
    let errors = many.json()["errors"].clone();
    assert_eq!(
        (&errors[0]["field"], &errors[1]["field"]),
        (&json!("resources.memory_gb"), &json!("resources.disk_gb"))
    );
    assert!(errors[0]["detail"].as_str().unwrap().contains("3.5"), "the maximum is named: {errors}");
    assert_eq!(errors.as_array().unwrap().len(), 2, "exactly the most is not too much");
    for wanted in [json!({}), json!({"isolation": "sampled"}), json!({"isolation": "strict"})] {
        let weak = ask(wanted.clone()).await;
        weak.expect_problem(422, "isolation_unavailable");
        for word in ["disk", "seccomp", "isolation: any", "sunaba doctor"] {
            assert!(weak.json()["detail"].as_str().unwrap().contains(word), "{word}: {}", weak.text);
        }
    }
    let gone = ask(json!({"provider": "docker", "isolation": "any"})).await;
    gone.expect_problem(422, "provider_unavailable");
    assert!(gone.text.contains("docker daemon") && !gone.text.contains("docker.sock"), "{}", gone.text);
    let bad = [
        (json!({"budget_usd": -1}), "budget_usd"),
        (json!({"budget_usd": "1"}), "budget_usd"),
        (json!({"timeout_seconds": 0}), "timeout_seconds"),
        (json!({"timeout_seconds": 1.5}), "timeout_seconds"),
        (json!({"isolation": "none"}), "isolation"),
        (json!({"env": {"ANTHROPIC_API_KEY": "x"}}), "env.ANTHROPIC_API_KEY"),
        (json!({"env": {"A B": "x"}}), "env.A B"),
        (json!({"env": ["A"]}), "env"),
        (json!({"resources": {"cpu": 0}}), "resources.cpu"),
        (json!({"resume_session_id": "s"}), "resume_session_id"),
        (json!({"fork": {}}), "fork"),
    ];
    for (extra, field) in bad {
        let answer = ask(extra).await;
        answer.expect_problem(422, "validation_failed");
        assert_eq!(answer.json()["errors"][0]["field"], field, "{}", answer.text);
    }
    for list in ["tasks", "tickets", "sandboxes"] {
        assert_eq!(app.admin.get(&format!("/api/v1/{list}")).await.expect(200)[list], json!([]), "{list}");
    }
    ask(json!({"isolation": "any"})).await.expect(201);
    assert_eq!(
        host.asked.load(Ordering::Relaxed),
        1,
        "what the host can do is asked once, not by every request"
    );
}

#[tokio::test]
async fn less_isolation_is_an_administrators_to_accept() {
    let (app, _) = on_host(vec![local()]).await;
    let project = app.project("p").await;
    let open = app
        .project_with(
            "q",
            ProjectSettings { isolation: Some(IsolationWanted::Any), ..ProjectSettings::default() },
        )
        .await;
    let editor = app.personal(&["read", "write"], &[&project.id, &open.id]).await;
    let ask = |project, wanted: &str| body(project, json!({"isolation": wanted}));
    editor.post("/api/v1/sandboxes", ask(&project, "any")).await.expect_problem(403, "isolation_admin_only");
    editor.post("/api/v1/sandboxes", ask(&project, "sampled")).await.expect(201);
    editor.post("/api/v1/sandboxes", ask(&open, "any")).await.expect(201);
    app.admin.post("/api/v1/sandboxes", ask(&project, "any")).await.expect(201);
}

#[tokio::test]
async fn everyone_sees_what_is_enforced_and_administrators_see_why() {
    let (app, _) = on_host(vec![local()]).await;
    let project = app.project("p").await;
    let reader = app.personal(&["read"], &[&project.id]).await;
    let told = app.admin.get("/api/v1/system/isolation").await.expect(200);
    let provider = &told["providers"][0];
    assert_eq!((&provider["name"], &provider["available"]), (&json!("local"), &json!(true)));
    assert_eq!(provider["isolation"]["pids"], "sampled");
    assert!(provider["isolation"]["level"].as_str().unwrap().contains("pids=sampled"), "{provider}");
    assert_eq!(provider["capacity"]["memory_gb"], 3.5);
    assert_eq!(provider["findings"][0]["remedy"], "mount it");
    let names: Vec<&Value> = told["providers"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
    assert_eq!(names, ["local", "docker", "external"]);
    assert_eq!(told["providers"][1]["available"], json!(null), "nobody here can say");
    let seen = reader.get("/api/v1/system/isolation").await;
    assert_eq!(
        seen.expect(200)["providers"][0]["findings"],
        json!([{"name": "cgroup pids", "status": "weaker"}])
    );
    assert!(!seen.text.contains("/sys/fs"), "{}", seen.text);
    let writer = app.personal(&["write"], &[]).await;
    writer.get("/api/v1/system/isolation").await.expect_problem(403, "scope_missing");
}

#[tokio::test]
async fn how_an_agent_works_is_said_by_the_call_then_by_the_project_then_by_the_server() {
    let setup = Setup::default().config(|config| {
        config.default_execution_config = ExecutionConfig {
            permission_mode: Some(PermissionMode::Bypass),
            question_policy: Some(QuestionPolicy::Suspend),
            ..ExecutionConfig::default()
        };
    });
    let app = setup.start().await;
    let project = app.project("p").await;
    let place = format!("/api/v1/projects/{}", project.id);
    let settings = json!({"execution_config": {"permission_mode": "default", "max_turns": 9}});
    let shown = app.admin.patch(&place, json!({ "settings": settings })).await.expect(200);
    assert_eq!(shown["settings"]["execution_config"], json!({"permission_mode": "ask", "max_turns": 9}));
    let made = async |extra: Value| {
        let made = app.admin.post("/api/v1/sandboxes", body(&project, extra)).await.expect(201);
        made["terms"].clone()
    };
    let expected = json!({"permission_mode": "ask", "max_turns": 9, "question_policy": "suspend"});
    assert_eq!(made(json!({})).await["execution_config"], expected);
    let said = json!({
        "env": {"PERMISSION_MODE": "acceptEdits", "MAX_TURNS": "3", "ALLOWED_TOOLS": "Read, Bash", "A": "b"},
        "execution_config": {"max_turns": 4, "question_hold_seconds": 60},
    });
    let terms = made(said).await;
    let expected = json!({"permission_mode": "acceptEdits", "max_turns": 4, "allowed_tools": ["Read", "Bash"],
        "question_hold_seconds": 60, "question_policy": "suspend"});
    assert_eq!((&terms["execution_config"], &terms["env"]), (&expected, &json!(["A"])));
    for (bad, field) in [
        (json!({"execution_config": {"permission_mode": "plan"}}), "execution_config.permission_mode"),
        (json!({"execution_config": []}), "execution_config"),
        (json!({"env": {"ENABLE_SKILLS": "maybe"}}), "env.ENABLE_SKILLS"),
        (json!({"env": {"permission_mode": "ask"}}), "env.permission_mode"),
    ] {
        let refused = app.admin.post("/api/v1/sandboxes", body(&project, bad)).await.expect(422);
        assert_eq!(refused["errors"][0]["field"], field);
    }
    let bad = json!({"settings": {"execution_config": {"max_turns": 0}}});
    let refused = app.admin.patch(&place, bad).await.expect(422);
    assert_eq!(refused["errors"][0]["field"], "settings.execution_config.max_turns");
}
