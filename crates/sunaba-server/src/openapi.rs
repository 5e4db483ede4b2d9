//! The OpenAPI document: what the routes say of themselves, and what holds for all of them.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{Components, Content, InfoBuilder, OpenApi, Ref, RefOr, Response as ApiResponse};
use utoipa::{PartialSchema as _, ToSchema as _};

use crate::{FieldError, Problem};

/// The document of this version.
pub fn document() -> OpenApi {
    finish(crate::router::documented().into_openapi())
}

/// Adds what holds for every route.
pub(crate) fn finish(mut document: OpenApi) -> OpenApi {
    document.info = InfoBuilder::new()
        .title("Sunaba")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Runs coding agents in isolated sandboxes, shows them live and lets people steer them.",
        ))
        .build();
    for (path, item) in &mut document.paths.paths {
        for (takes_body, operation) in operations(item) {
            add_errors(path, takes_body, operation);
            if !is_public(path) {
                operation.security = Some(vec![needs("bearer"), needs("api_key"), needs("basic")]);
            }
        }
    }
    let components = document.components.get_or_insert_with(Components::new);
    for (name, schema) in [(Problem::name(), Problem::schema()), (FieldError::name(), FieldError::schema())] {
        components.schemas.insert(name.into_owned(), schema);
    }
    let http = |scheme| RefOr::T(SecurityScheme::Http(Http::new(scheme)));
    components.security_schemes.insert("bearer".to_owned(), http(HttpAuthScheme::Bearer));
    components.security_schemes.insert("basic".to_owned(), http(HttpAuthScheme::Basic));
    let key = RefOr::T(SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("x-api-key"))));
    components.security_schemes.insert("api_key".to_owned(), key);
    document
}

/// The document as an answer.
pub(crate) fn answer(text: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn needs(scheme: &str) -> SecurityRequirement {
    SecurityRequirement::new(scheme, Vec::<String>::new())
}

fn is_public(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/api/v1/sandboxes/health")
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (bool, &mut Operation)> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete]
        .into_iter()
        .filter_map(|operation| operation.as_mut())
        .map(|operation| (operation.request_body.is_some(), operation))
}

/// The errors that a route can answer with, by what it takes.
fn add_errors(path: &str, takes_body: bool, operation: &mut Operation) {
    let takes_json = takes_body && !path.ends_with("/blobs");
    let named = path.contains('{');
    let asks = operation.parameters.as_ref().is_some_and(|list| !list.is_empty());
    // A worker that has lost its standing is told so wherever it asks.
    let conflicts = match operation.operation_id.as_deref() {
        Some(
            "cancel_sandbox" | "take_messages" | "get_sandbox_task" | "create_project" | "get_backup"
            | "give_up_node",
        ) => true,
        _ => takes_body && (path.starts_with("/api/v1/sandboxes") || path.starts_with("/api/v1/projects/")),
    };
    let refers = named || (takes_json && path != "/api/v1/projects") || path == "/metrics";
    let checked = named || takes_json || asks;
    let errors = [
        (checked || takes_body, "400", "The request cannot be read"),
        (!is_public(path), "401", "The token is missing or opens nothing"),
        (!is_public(path), "403", "The token does not open this"),
        (refers, "404", "There is no such thing, or the token may not know of it"),
        (takes_json, "408", "The body came too slowly"),
        (conflicts, "409", "The present state does not allow it"),
        (takes_body, "413", "The body is too large"),
        (takes_json, "415", "The body is not sent as JSON"),
        (checked, "422", "A field or parameter is not valid; `errors` names it"),
        (!is_public(path), "429", "Too much at once; try again after `Retry-After` seconds"),
        (true, "500", "Something went wrong in the server"),
        (true, "503", "Not now; try again after `Retry-After` seconds"),
    ];
    for (_, status, description) in errors.into_iter().filter(|(applies, _, _)| *applies) {
        let known = &mut operation.responses.responses;
        known.entry(status.to_owned()).or_insert_with(|| RefOr::T(problem(description)));
    }
}

fn problem(description: &str) -> ApiResponse {
    let schema: RefOr<utoipa::openapi::Schema> = RefOr::Ref(Ref::from_schema_name("Problem"));
    let mut response = ApiResponse::new(description);
    response.content.insert("application/problem+json".to_owned(), Content::new(Some(schema)).into());
    response
}
