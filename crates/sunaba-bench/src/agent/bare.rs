//! The native agent without a worker, a sandbox or a gateway.

use std::sync::Arc;

use anyhow::ensure;
use sunaba_agent::{
    AgentEvent, ApiKey, EventSink, NativeConfig, NativeRuntime, NobodyToAsk, PermissionMode, RunContext,
    Runtime as _, SessionStart,
};

use super::edge::{CALLS, Wish};

/// Nobody listens.
struct Nowhere;

impl EventSink for Nowhere {
    fn emit(&self, _event: AgentEvent) {}
}

/// Makes all the calls.
pub(super) async fn run(model: &str) -> anyhow::Result<()> {
    let (cwd, home) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let (_nobody_writes, inbox) = tokio::sync::mpsc::channel(1);
    let context = RunContext {
        prompt: Wish::Calls.words().to_owned(),
        model: "claude-sonnet-4-5".to_owned(),
        base_url: model.to_owned(),
        openai_base_url: model.to_owned(),
        google_base_url: model.to_owned(),
        api_key: ApiKey::new("none"),
        cwd: cwd.path().to_owned(),
        home: home.path().to_owned(),
        session_id: uuid::Uuid::new_v4().to_string(),
        session: SessionStart::New,
        permission_mode: PermissionMode::Bypass,
        asks: Arc::new(NobodyToAsk),
        max_turns: u32::try_from(CALLS)? + 10,
        system_prompt: None,
        system_prompt_append: None,
        events: Arc::new(Nowhere),
        inbox,
        shutdown: tokio_util::sync::CancellationToken::new(),
    };
    let outcome = Box::new(NativeRuntime::new(NativeConfig::default())).run(context).await;
    ensure!(outcome.success(), "the bare agent failed: {:?}", outcome.error());
    Ok(())
}
