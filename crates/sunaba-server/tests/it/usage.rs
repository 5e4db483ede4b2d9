//! What model calls and machines cost, as it is shown.

use std::sync::Arc;

use serde_json::json;
use sunaba_server::{LiveUsage, SourceError};
use sunaba_store::{NewSandbox, Reserve, Settlement};
use sunaba_testkit::{Setup, TestApp};
use sunaba_types::shim::ResourceUse;
use sunaba_types::{ProjectSettings, Sandbox, Terms};

#[derive(Debug)]
struct Meter;

#[async_trait::async_trait]
impl LiveUsage for Meter {
    async fn usage(&self, sandbox: &Sandbox) -> Result<ResourceUse, SourceError> {
        match sandbox.provider.as_str() {
            "local" => Ok(ResourceUse { memory_bytes: 7, pids: 3, ..ResourceUse::default() }),
            _ => Err(SourceError::Absent("elsewhere".to_owned())),
        }
    }
}

async fn pay(app: &TestApp, sandbox: &Sandbox, cost_micros: Option<i64>) {
    let reserve = Reserve {
        sandbox_id: sandbox.id.clone(),
        attempt: sandbox.attempt,
        node_id: None,
        dialect: "anthropic".to_owned(),
        model: "m".to_owned(),
        least_micros: 1,
        most_micros: 500_000,
    };
    let reserved = app.store.reserve_call(reserve).await.expect("up");
    let Some(cost_micros) = cost_micros else { return };
    let known_by = "usage".to_owned();
    let settled =
        Settlement { cost_micros, input_tokens: 10, output_tokens: 20, known_by, ..Settlement::default() };
    assert!(app.store.settle_call(&reserved.id, settled).await.expect("up"));
}

#[tokio::test]
async fn usage_is_summed_and_held_against_budgets() {
    let app = Setup::default().compose(|parts| parts.usage = Some(Arc::new(Meter))).start().await;
    let settings = ProjectSettings { total_budget_usd: Some(3.0), ..ProjectSettings::default() };
    let project = app.project_with("p", settings).await;
    let task = app.task(&project.id, "t").await;
    let new = |provider: &str, budget_usd| NewSandbox {
        project_id: Some(project.id.clone()),
        task_id: None,
        provider: provider.to_owned(),
        runtime: "native".to_owned(),
        model: "m".to_owned(),
        prompt: "x".to_owned(),
        resources: sunaba_types::Resources::default(),
        terms: Terms { budget_usd, ..Terms::default() },
    };
    let of_task = NewSandbox { task_id: Some(task.id), ..new("local", Some(1.0)) };
    let sandbox = app.store.create_sandbox(of_task).await.unwrap();
    let elsewhere = app.store.create_sandbox(new("external", None)).await.unwrap();
    pay(&app, &sandbox, Some(250_000)).await;
    pay(&app, &sandbox, None).await;
    pay(&app, &elsewhere, Some(1_000_000)).await;
    let usage = async |id: &str| app.admin.get(&format!("/api/v1/sandboxes/{id}/usage")).await.expect(200);
    let own = usage(sandbox.id.as_str()).await;
    assert_eq!(
        own["model"],
        json!({"calls": 1, "input_tokens": 10, "output_tokens": 20, "cache_read_tokens": 0,
        "cache_write_tokens": 0, "cost_usd": 0.25, "reserved_usd": 0.5})
    );
    assert_eq!(own["budget"], json!({"budget_usd": 1.0, "used_usd": 0.75, "left_usd": 0.25}));
    assert_eq!((&own["live"]["memory_bytes"], &own["resources"]["cpu"]), (&json!(7), &json!(2.0)));
    let other = usage(elsewhere.id.as_str()).await;
    assert_eq!(
        (&other["budget"], &other["live"]),
        (&json!(null), &json!(null)),
        "what is not known is not told"
    );
    let all = app.admin.get(&format!("/api/v1/projects/{}/usage", project.id)).await.expect(200);
    assert_eq!((&all["model"]["calls"], &all["model"]["cost_usd"]), (&json!(2), &json!(1.25)));
    assert_eq!(all["budget"], json!({"budget_usd": 3.0, "used_usd": 1.75, "left_usd": 1.25}));
    let shown = app.admin.get(&format!("/api/v1/sandboxes/{}", sandbox.id)).await.expect(200);
    assert_eq!(shown["cost_usd"], 0.25);
    app.admin.delete(&format!("/api/v1/sandboxes/{}", sandbox.id)).await.expect(200);
    assert_eq!(usage(sandbox.id.as_str()).await["live"], json!(null), "it does not run any more");
}
