//! Git for other nodes: replicas read whole mirrors, and requests of sandboxes elsewhere are passed on here.
//!
//! The server has looked at the nodes' token before any of this is reached.

use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use sunaba_git::{Mirror, Service};
use sunaba_nodes::wire::{ATTEMPT_HEADER, PROJECT_HEADER};
use sunaba_types::{NodeId, ProjectId, SandboxId};

use super::handlers::{InfoRefs, OfProject, advertised, broken_for, protocol, said, served, take_request};
use crate::{Caller, GatewayState};

/// `GET /git/{project}/info/refs`, for a replica.
pub(crate) async fn replica_refs(
    State(state): State<GatewayState>,
    Path(OfProject { project }): Path<OfProject<ProjectId>>,
    Query(query): Query<InfoRefs>,
    headers: HeaderMap,
) -> Response {
    let Some(service @ Service::UploadPack) = Service::parse(&query.service) else {
        return said(StatusCode::FORBIDDEN, "a replica only reads: git-upload-pack");
    };
    let Some(mirror) = open(&state, &project) else { return absent(&project) };
    match mirror.advertise(service, protocol(&headers)).await {
        Ok(refs) => advertised(service, refs),
        Err(error) => broken_for(project.as_str(), &error),
    }
}

/// `POST /git/{project}/git-upload-pack`, for a replica.
pub(crate) async fn replica_pack(
    State(state): State<GatewayState>,
    Path(OfProject { project }): Path<OfProject<ProjectId>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let Some(mirror) = open(&state, &project) else { return absent(&project) };
    let request = match take_request(&state, &headers, body).await {
        Ok(request) => request,
        Err(response) => return response,
    };
    let protocol = protocol(&headers).map(str::to_owned);
    served(&state, move |writer| async move {
        let result = mirror.rpc(Service::UploadPack, protocol.as_deref(), request, writer).await;
        if let Err(error) = result {
            tracing::warn!(%project, %error, "a replica was not served whole");
        }
    })
}

fn open(state: &GatewayState, project: &ProjectId) -> Option<Mirror> {
    Mirror::open(state.config.git_root.join(format!("{project}.git"))).ok()
}

fn absent(project: &ProjectId) -> Response {
    said(StatusCode::NOT_FOUND, &format!("the project {project} has no repository here yet"))
}

/// The node in a path.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct OfNode {
    node: NodeId,
}

/// Refuses what was meant for another node: an address may have come to belong to this one.
pub(crate) async fn be_meant(
    State(state): State<GatewayState>,
    Path(OfNode { node }): Path<OfNode>,
    request: Request,
    next: Next,
) -> Response {
    match &state.config.nodes {
        Some(nodes) if *nodes.me() == node => next.run(request).await,
        _ => said(StatusCode::SERVICE_UNAVAILABLE, "this is another node than the one that is meant"),
    }
}

/// The sandbox in a path.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct OfSandbox {
    sandbox: SandboxId,
}

/// Says who asks in a request that another node passed on.
pub(crate) async fn know_caller(
    Path(OfSandbox { sandbox }): Path<OfSandbox>,
    mut request: Request,
    next: Next,
) -> Response {
    match caller(sandbox, request.headers()) {
        Some(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        None => said(StatusCode::BAD_REQUEST, "a request that is passed on says for whom"),
    }
}

fn caller(sandbox_id: SandboxId, headers: &HeaderMap) -> Option<Caller> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let attempt = text(ATTEMPT_HEADER)?.parse().ok()?;
    let project_id = text(PROJECT_HEADER).and_then(|id| ProjectId::parse(id).ok());
    Some(Caller { sandbox_id, project_id, attempt })
}
