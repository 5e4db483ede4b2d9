//! `POST /api/v1/system/nodes/{id}/lost`: an operator gives a node up that will not come back.

use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use sunaba_types::NodeId;
use sunaba_types::limits::NODE_SILENCE;
use utoipa::ToSchema;

use crate::api::{ApiResult, ok};
use crate::auth::Admin;
use crate::extract::IdPath;
use crate::{ApiError, AppState};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LostNode {
    /// The node.
    id: String,
    /// `lost`.
    status: &'static str,
}

/// Gives a silent node up at once: what it held fails, and its tasks are tried again elsewhere. A node that still
/// speaks is refused (409): stop it first.
#[utoipa::path(post, path = "/api/v1/system/nodes/{id}/lost", tag = "system", operation_id = "give_up_node",
    params(("id" = String, Path)), responses((status = 200, body = LostNode)))]
pub(crate) async fn lost(State(state): State<AppState>, _: Admin, IdPath(id): IdPath<NodeId>) -> ApiResult {
    let nodes = state.store().list_nodes().await?;
    let node = nodes.iter().find(|node| node.report.id == id);
    let node = node.ok_or_else(|| ApiError::not_found("node", &id))?;
    if node.lost_at.is_none() && !state.store().give_up_node(&id, NODE_SILENCE).await? {
        let words = format!("the node {id} was heard {} s ago; stop it first", node.silent_for.as_secs());
        return Err(ApiError::new(StatusCode::CONFLICT, "node_alive", words));
    }
    ok(&LostNode { id: id.into(), status: "lost" })
}
