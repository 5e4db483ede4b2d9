//! Puts the routes together.

use axum::Router;
use http::StatusCode;
use sunaba_gateway::GatewayState;
use sunaba_nodes::wire::PREFIX;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::{agents, blobs, live, ops, projects, sandboxes, system, tasks, tickets, tokens};
use crate::layers::measure::Measure;
use crate::{ApiError, App, AppState, internal, openapi, tunnel};

/// The gateway's routes.
#[derive(Debug)]
pub struct GatewayRoutes {
    /// Served under `/gateway`, for sandboxes only.
    pub for_sandboxes: Router,
    /// Served among the routes for other nodes.
    pub for_nodes: Router,
}

impl From<&GatewayState> for GatewayRoutes {
    fn from(gateway: &GatewayState) -> Self {
        Self {
            for_sandboxes: sunaba_gateway::router(gateway.clone()),
            for_nodes: sunaba_gateway::router_for_nodes(gateway.clone()),
        }
    }
}

/// The whole server.
pub fn app(state: AppState, gateway: Option<GatewayRoutes>) -> App {
    let (routes, document) = documented().split_for_parts();
    let document = openapi::finish(document);
    let text: bytes::Bytes = document.to_json().unwrap_or_default().into();
    let inner = routes
        .route("/tunnel", axum::routing::get(tunnel::open))
        .route("/api/openapi.json", axum::routing::get(move || async move { openapi::answer(text.clone()) }))
        .nest(PREFIX, internal::routes())
        .method_not_allowed_fallback(method_not_allowed)
        .route_layer(Measure)
        .with_state(state.clone());
    let inner = match gateway {
        Some(gateway) => inner.nest("/gateway", gateway.for_sandboxes).nest(PREFIX, gateway.for_nodes),
        None => inner,
    };
    App::new(state, inner.fallback(not_found))
}

/// Every route that is in the OpenAPI document.
pub(crate) fn documented() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .merge(sandbox_routes())
        .merge(log_routes())
        .merge(project_routes())
        .routes(routes!(tickets::create::create, tickets::list::list))
        .routes(routes!(tickets::show::show))
        .routes(routes!(tasks::create::create, tasks::list::list))
        .routes(routes!(tasks::show::show))
        .routes(routes!(tokens::create::create, tokens::list::list))
        .routes(routes!(tokens::revoke::revoke))
        .routes(routes!(blobs::upload::upload))
        .routes(routes!(blobs::fetch::fetch))
        .routes(routes!(live::ws::ws))
        .routes(routes!(agents::agents))
        .routes(routes!(system::backup::backup))
        .routes(routes!(system::isolation::isolation))
        .routes(routes!(system::status::status))
        .routes(routes!(system::lost::lost))
        .routes(routes!(ops::healthz::healthz))
        .routes(routes!(ops::readyz::readyz))
        .routes(routes!(ops::metrics::metrics))
}

fn project_routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(projects::create::create, projects::list::list))
        .routes(routes!(projects::show::show, projects::update::update))
        .routes(routes!(projects::usage::usage))
        .routes(routes!(projects::secrets::list::list))
        .routes(routes!(projects::secrets::put::put, projects::secrets::delete::delete))
}

fn sandbox_routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(sandboxes::health::health))
        .routes(routes!(sandboxes::create::create, sandboxes::list::list))
        .routes(routes!(sandboxes::show::show, sandboxes::cancel::cancel))
        .routes(routes!(sandboxes::task::task))
        .routes(routes!(sandboxes::post_message::post_message, sandboxes::take_messages::take_messages))
        .routes(routes!(sandboxes::history::history))
        .routes(routes!(sandboxes::questions::ask::ask, sandboxes::questions::list::of_sandbox))
        .routes(routes!(sandboxes::questions::show::show))
        .routes(routes!(sandboxes::questions::answer::answer))
        .routes(routes!(sandboxes::questions::withdraw::withdraw))
        .routes(routes!(sandboxes::questions::list::all))
        .routes(routes!(sandboxes::diff::diff))
        .routes(routes!(sandboxes::files::files))
        .routes(routes!(sandboxes::fork::fork))
        .routes(routes!(sandboxes::logs::logs))
        .routes(routes!(sandboxes::usage::usage))
        .routes(routes!(sandboxes::post_blob::post_blob))
        .routes(routes!(sandboxes::transcripts::list::list))
        .routes(routes!(sandboxes::transcripts::put::put, sandboxes::transcripts::fetch::fetch))
}

fn log_routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(sandboxes::post_event::post_event, sandboxes::list_events::list_events))
        .routes(routes!(sandboxes::post_batch::post_batch))
        .routes(routes!(sandboxes::stream::stream))
        .routes(routes!(sandboxes::trajectory::trajectory))
        .routes(routes!(sandboxes::outline::outline))
        .routes(routes!(sandboxes::verify::verify))
}

async fn not_found() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "no_such_route", "there is nothing at this address")
}

async fn method_not_allowed() -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this address does not take this method",
    )
}
