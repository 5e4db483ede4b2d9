//! The agents that are known.

use std::sync::Arc;

use serde_json::{Value, json};
use sunaba_server::{AgentProgram, ProviderReport, ProviderReports};
use sunaba_testkit::Setup;

/// A host as a test wants it.
#[derive(Debug)]
struct Host(Vec<ProviderReport>);

#[async_trait::async_trait]
impl ProviderReports for Host {
    async fn report(&self) -> Vec<ProviderReport> {
        self.0.clone()
    }
}

#[tokio::test]
async fn agents_are_listed_with_what_they_do_and_whether_they_are_there() {
    let program = |agent, problem: Option<&str>| AgentProgram {
        agent,
        version: Some("9.9.9".to_owned()),
        problem: problem.map(str::to_owned),
    };
    let agents = vec![program("codex", None), program("opencode", Some("it needs node"))];
    let local = ProviderReport {
        name: "local".to_owned(),
        available: true,
        isolation: None,
        capacity: None,
        findings: Vec::new(),
        agents: Some(agents),
    };
    let setup = Setup::default()
        .config(|config| config.providers = ["local", "docker", "external"].map(str::to_owned).to_vec())
        .compose(|parts| parts.providers = Some(Arc::new(Host(vec![local]))));
    let app = setup.start().await;
    let listed = app.admin.get("/api/v1/agents").await.json();
    assert_eq!(listed["default_runtime"], "native");
    let names: Vec<_> = listed["agents"].as_array().unwrap().iter().map(|agent| &agent["name"]).collect();
    assert_eq!(names, sunaba_types::agents::NAMES);
    let found = |listed: &Value, name: &str| {
        let agents = listed["agents"].as_array().unwrap();
        agents.iter().find(|agent| agent["name"] == name).unwrap()["found"][0].clone()
    };
    assert_eq!(found(&listed, "native")["installed"], true);
    let here = json!({"provider": "local", "installed": true, "version": "9.9.9"});
    assert_eq!(found(&listed, "codex"), here);
    let broken =
        json!({"provider": "local", "installed": false, "version": "9.9.9", "problem": "it needs node"});
    assert_eq!(found(&listed, "opencode"), broken);
    assert_eq!(found(&listed, "claude")["installed"], false);
    let codex = listed["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == "codex").unwrap();
    assert_eq!(codex["found"][1], json!({"provider": "docker", "installed": null, "version": null}));
    assert_eq!(codex["found"].as_array().unwrap().len(), 2, "others know what is in theirs");
    assert_eq!(codex["install"], "npm install -g @zed-industries/codex-acp@0.16.0");
    assert_eq!(codex["capabilities"]["message"], "next_call");
    assert_eq!(
        (&codex["capabilities"]["fork"], &codex["capabilities"]["helpers"]),
        (&json!(true), &json!(false))
    );
    let helper = codex["cases"].as_array().unwrap().iter().find(|case| case["name"] == "helper").unwrap();
    assert_eq!(
        (&helper["result"], &helper["note"]),
        (&json!("no"), &json!("has none that a model can ask for here"))
    );

    let reader = app.personal(&["read"], &[]).await;
    let seen = reader.get("/api/v1/agents").await.json();
    assert_eq!(
        found(&seen, "opencode")["problem"],
        Value::Null,
        "places on the server are for administrators"
    );
    assert_eq!(app.anonymous().get("/api/v1/agents").await.status, 401);
}
