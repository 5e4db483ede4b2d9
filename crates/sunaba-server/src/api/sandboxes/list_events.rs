//! `GET /api/v1/sandboxes/{id}/events`: the log, newest first, filtered.

use axum::extract::State;
use serde::Serialize;
use sunaba_store::EventQuery;
use sunaba_types::SandboxId;
use sunaba_types::limits::EVENTS_PAGE_MAX;
use utoipa::ToSchema;

use crate::api::views::EventView;
use crate::api::{ApiResult, ok};
use crate::auth::{Reader, visible_sandbox};
use crate::extract::{IdPath, Params};
use crate::{ApiError, AppState};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventList {
    events: Vec<EventView>,
    /// How many events of the wanted types the sandbox has.
    total_count: i64,
    sandbox_id: String,
    /// Give it as `before_seq` to go on.
    next_before_seq: Option<i64>,
}

/// Events, newest first.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/events", tag = "events", operation_id = "list_events",
    params(("id" = String, Path), ("limit" = Option<u32>, Query, minimum = 1, maximum = 500),
        ("offset" = Option<i64>, Query, minimum = 0), ("event_type" = Option<String>, Query),
        ("event_types" = Option<String>, Query, description = "A comma list; `agent.*` covers a prefix"),
        ("exclude_types" = Option<String>, Query, description = "A comma list; `agent.*` covers a prefix"),
        ("q" = Option<String>, Query, description = "Text that the payload must contain"),
        ("after_seq" = Option<i64>, Query, minimum = 0), ("before_seq" = Option<i64>, Query, minimum = 0)),
    responses((status = 200, body = EventList)))]
pub(crate) async fn list_events(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<SandboxId>,
    params: Params,
) -> ApiResult {
    let query = read(&id, params)?;
    visible_sandbox(&state, &identity, &id).await?;
    let page = state.store().list_events(query).await?;
    ok(&EventList {
        events: page.events.into_iter().map(Into::into).collect(),
        total_count: page.total_count,
        sandbox_id: id.into(),
        next_before_seq: page.next_before_seq,
    })
}

fn read(id: &SandboxId, mut params: Params) -> Result<EventQuery, ApiError> {
    let mut event_types = params.list("event_types");
    event_types.extend(params.text("event_type").filter(|name| !name.is_empty()));
    let contains = params.text("q").filter(|text| !text.is_empty());
    if contains.as_ref().is_some_and(|text| text.chars().count() > 500) {
        params.fault("q", "must have at most 500 characters");
    }
    let query = EventQuery {
        sandbox_id: id.clone(),
        event_types,
        exclude_types: params.list("exclude_types"),
        contains,
        after_seq: params.number("after_seq", 0..=i64::MAX),
        before_seq: params.number("before_seq", 0..=i64::MAX),
        offset: params.number("offset", 0..=i64::MAX).and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
        limit: params.limit(100, EVENTS_PAGE_MAX),
    };
    params.finish()?;
    Ok(query)
}
