//! `GET /api/v1/system/status`: the nodes, their loops, and how far behind anything is.

use std::time::{Duration, Instant};

use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use sunaba_types::{Node, Timestamp};
use utoipa::ToSchema;

use crate::api::{ApiResult, ok};
use crate::auth::Reader;
use crate::{ApiError, AppState};

const STORE_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SystemStatus {
    /// The node that answers.
    node_id: Option<String>,
    version: &'static str,
    nodes: Vec<NodeView>,
    feed: FeedStatus,
    store: StoreStatus,
    /// How the connection to Redis fares; none without one.
    #[schema(value_type = Option<Object>)]
    bus: Option<Value>,
}

/// One node.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodeView {
    id: String,
    /// `up`, `left` (stopped in order), `silent` or `lost` (given up).
    status: &'static str,
    version: String,
    roles: Vec<&'static str>,
    providers: Vec<String>,
    /// Living sandboxes that it holds.
    sandboxes: i64,
    max_sandboxes: i64,
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// When it was last heard, by the store's clock.
    #[schema(value_type = String, format = DateTime)]
    heard_at: Timestamp,
    /// How long ago that was.
    silent_seconds: u64,
    /// Where other nodes reach it. Administrators only.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// How its loops fared when it was last heard: `age_ms`, `took_ms`, `failures` (in a row) and `failures_total`
    /// (since its start) of each.
    #[schema(value_type = Object)]
    loops: Value,
}

/// Where the feed is and how far this node has read it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FeedStatus {
    /// The last committed position.
    head: i64,
    /// The last one that subscribers of this node can see; none before the first look.
    seen: Option<i64>,
    /// How many positions lie between.
    behind: Option<i64>,
}

/// How the store fares.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StoreStatus {
    /// `sqlite` or `postgres`.
    kind: &'static str,
    /// How long reading the feed's head took.
    read_ms: u64,
}

/// The nodes, their loops, and how far behind anything is.
#[utoipa::path(get, path = "/api/v1/system/status", tag = "system", operation_id = "get_status",
    responses((status = 200, body = SystemStatus)))]
pub(crate) async fn status(State(state): State<AppState>, Reader(identity): Reader) -> ApiResult {
    let began = Instant::now();
    let seen = state.hub.head();
    let read = tokio::time::timeout(STORE_PATIENCE, state.store().feed_head()).await;
    let head =
        read.map_err(|_| ApiError::unavailable("store_slow", "the store does not answer; try again"))??;
    let read_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let nodes = state.store().list_nodes().await?;
    let with_address = identity.is_admin();
    ok(&SystemStatus {
        node_id: state.parts.nodes.as_ref().map(|nodes| nodes.me().to_string()),
        version: env!("CARGO_PKG_VERSION"),
        nodes: nodes.into_iter().map(|node| view(node, with_address)).collect(),
        feed: FeedStatus { head, seen, behind: seen.map(|seen| (head - seen).max(0)) },
        store: StoreStatus { kind: state.store().kind(), read_ms },
        bus: state.parts.bus.as_ref().map(|bus| bus.report()),
    })
}

fn view(node: Node, with_address: bool) -> NodeView {
    let status = match &node {
        lost if lost.lost_at.is_some() => "lost",
        left if left.left_at.is_some() => "left",
        up if up.is_up() => "up",
        _ => "silent",
    };
    let report = node.report;
    NodeView {
        id: report.id.into(),
        status,
        version: report.version,
        roles: report.roles.into_iter().map(sunaba_types::Role::as_str).collect(),
        providers: report.providers,
        sandboxes: node.sandboxes,
        max_sandboxes: report.max_sandboxes,
        started_at: report.started_at,
        heard_at: node.beat_at,
        silent_seconds: node.silent_for.as_secs(),
        address: with_address.then_some(report.address),
        loops: report.loops,
    }
}
