//! `GET /api/v1/sandboxes/{id}/usage`: tokens, cost, budget, and what a running one uses of its machine.

use std::time::Duration;

use axum::extract::State;
use serde::Serialize;
use sunaba_store::Spender;
use sunaba_types::shim::ResourceUse;
use sunaba_types::{Sandbox, SandboxId};
use utoipa::ToSchema;

use super::task::readable;
use crate::api::usage::{Budget, ModelUse};
use crate::api::views::ResourcesView;
use crate::api::{ApiResult, ok};
use crate::auth::{Identity, visible_sandbox};
use crate::extract::IdPath;
use crate::{ApiError, AppState};

/// How long the provider may take to say.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a sandbox used.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SandboxUsage {
    sandbox_id: String,
    /// Its own model calls.
    model: ModelUse,
    /// The budget of its task, over all attempts; none without a bound.
    budget: Option<Budget>,
    /// What it may use.
    resources: ResourcesView,
    /// What it uses now; none when it does not run or its provider cannot say.
    live: Option<LiveUse>,
}

/// What a running sandbox uses.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LiveUse {
    memory_bytes: u64,
    memory_peak_bytes: u64,
    cpu_ms: u64,
    pids: u64,
    disk_bytes: u64,
}

impl From<ResourceUse> for LiveUse {
    fn from(now: ResourceUse) -> Self {
        Self {
            memory_bytes: now.memory_bytes,
            memory_peak_bytes: now.memory_peak_bytes,
            cpu_ms: now.cpu_ms,
            pids: now.pids,
            disk_bytes: now.disk_bytes,
        }
    }
}

/// What a sandbox used: tokens and cost of its model calls, its task's budget, its machine.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/usage", tag = "sandboxes", operation_id = "get_sandbox_usage",
    params(("id" = String, Path)), responses((status = 200, body = SandboxUsage)))]
pub(crate) async fn usage(
    State(state): State<AppState>,
    identity: Identity,
    IdPath(id): IdPath<SandboxId>,
) -> ApiResult {
    readable(&identity)?;
    let sandbox = visible_sandbox(&state, &identity, &id).await?;
    // Open to the sandbox itself: a worker that goes on until a limit has to know how far it is from it.
    if identity.sandbox().is_some() {
        state.store().check_standing(&id, identity.event_writer(false)).await?;
    }
    let own = state.store().spending(&Spender::Sandbox(id.clone())).await?;
    ok(&SandboxUsage {
        sandbox_id: id.into(),
        model: own.into(),
        budget: budget(&state, &sandbox).await?,
        resources: sandbox.resources.into(),
        live: live(&state, &sandbox).await,
    })
}

async fn budget(state: &AppState, sandbox: &Sandbox) -> Result<Option<Budget>, ApiError> {
    let Some(usd) = sandbox.terms.budget_usd else { return Ok(None) };
    let spender = match &sandbox.task_id {
        Some(task) => Spender::Task(task.clone()),
        None => Spender::Sandbox(sandbox.id.clone()),
    };
    Ok(Some(Budget::new(usd, &state.store().spending(&spender).await?)))
}

async fn live(state: &AppState, sandbox: &Sandbox) -> Option<LiveUse> {
    let source = state.parts.usage.as_ref().filter(|_| !sandbox.state.is_terminal())?;
    match tokio::time::timeout(PATIENCE, source.usage(sandbox)).await {
        Ok(Ok(now)) => Some(now.into()),
        Ok(Err(error)) => {
            tracing::debug!(%error, sandbox = %sandbox.id, "no live usage");
            None
        }
        Err(_) => None,
    }
}
