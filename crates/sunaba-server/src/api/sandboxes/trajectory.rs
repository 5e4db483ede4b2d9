//! `GET /api/v1/sandboxes/{id}/trajectory`: the story, without heartbeats and search noise.

use axum::extract::State;
use serde::Serialize;
use sunaba_store::{Noise, TrajectoryDirection, TrajectoryQuery};
use sunaba_types::limits::TRAJECTORY_PAGE_MAX;
use sunaba_types::{SandboxId, Timestamp};
use utoipa::ToSchema;

use crate::api::views::EventView;
use crate::api::{ApiResult, ok};
use crate::auth::{Reader, visible_sandbox};
use crate::extract::list::parse_cursor;
use crate::extract::{IdPath, Params};
use crate::{ApiError, AppState};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HeartbeatSummary {
    count: i64,
    first_heartbeat: Option<Timestamp>,
    last_heartbeat: Option<Timestamp>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Trajectory {
    sandbox_id: String,
    /// Newest first.
    events: Vec<EventView>,
    heartbeat_summary: HeartbeatSummary,
    /// With heartbeats.
    total_events: i64,
    trajectory_events: i64,
    /// To older events.
    next_cursor: Option<String>,
    /// To newer events.
    prev_cursor: Option<String>,
    has_more: bool,
}

/// A page of the story.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/trajectory", tag = "events", operation_id = "get_trajectory",
    params(("id" = String, Path), ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "An event's id"),
        ("direction" = Option<String>, Query, description = "`older` (default) or `newer`"),
        ("noise" = Option<String>, Query, description = "`show` or `hide` (default)")),
    responses((status = 200, body = Trajectory)))]
pub(crate) async fn trajectory(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<SandboxId>,
    params: Params,
) -> ApiResult {
    let query = read(&id, params)?;
    visible_sandbox(&state, &identity, &id).await?;
    let page = state.store().trajectory(query).await?;
    ok(&Trajectory {
        sandbox_id: id.into(),
        events: page.events.into_iter().map(Into::into).collect(),
        heartbeat_summary: HeartbeatSummary {
            count: page.head.heartbeat_count,
            first_heartbeat: page.head.first_heartbeat,
            last_heartbeat: page.head.last_heartbeat,
        },
        total_events: page.head.last_seq,
        trajectory_events: page.trajectory_events,
        next_cursor: page.next_cursor,
        prev_cursor: page.prev_cursor,
        has_more: page.has_more,
    })
}

fn read(id: &SandboxId, mut params: Params) -> Result<TrajectoryQuery, ApiError> {
    let direction = params.parsed("direction", |text| match text.as_str() {
        "older" => Ok(TrajectoryDirection::Older),
        "newer" => Ok(TrajectoryDirection::Newer),
        _ => Err("must be older or newer"),
    });
    let noise = params.parsed("noise", |text| match text.as_str() {
        "show" => Ok(Noise::Shown),
        "hide" => Ok(Noise::Hidden),
        _ => Err("must be show or hide"),
    });
    let query = TrajectoryQuery {
        sandbox_id: id.clone(),
        cursor: params.parsed("cursor", parse_cursor),
        direction: direction.unwrap_or(TrajectoryDirection::Older),
        noise: noise.unwrap_or(Noise::Hidden),
        limit: params.limit(100, TRAJECTORY_PAGE_MAX),
    };
    params.finish()?;
    Ok(query)
}
