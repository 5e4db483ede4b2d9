//! `GET /healthz`: the process answers.

use serde::Serialize;
use utoipa::ToSchema;

use crate::api::{ApiResult, ok};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    status: &'static str,
}

/// Whether the process answers.
#[utoipa::path(get, path = "/healthz", tag = "ops", responses((status = 200, body = Health)))]
pub(crate) async fn healthz() -> ApiResult {
    ok(&Health { status: "ok" })
}
