//! `GET /api/v1/system/backup`: everything in one archive, while the server works.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use sunaba_backup::{Contents, Error, Piece};
use tokio::sync::mpsc;

use crate::auth::Admin;
use crate::extract::Params;
use crate::{ApiError, AppState};

/// How many pieces wait to be sent. A piece has at most a batch of rows.
const WAITING: usize = 2;

/// Everything in one tar archive: the rows of the installation as they are now, and the blobs and mirrors of this
/// node; never the secret key. An archive that broke off has no `trailer.json`. One at a time (409).
#[utoipa::path(get, path = "/api/v1/system/backup", tag = "system", operation_id = "get_backup",
    params(("files_only" = Option<bool>, Query, description = "Only this node's files, without the rows")),
    responses((status = 200, body = Vec<u8>, content_type = "application/x-tar")))]
pub(crate) async fn backup(
    State(state): State<AppState>,
    _: Admin,
    mut params: Params,
) -> Result<Response, ApiError> {
    let contents = match params.text("files_only").as_deref() {
        Some("true") => Contents::FilesOnly,
        _ => Contents::Everything,
    };
    params.finish()?;
    let absent = || ApiError::unavailable("backup_unavailable", "this server keeps no files to back up");
    let parts = state.parts.backup.clone().ok_or_else(absent)?;
    let Ok(alone) = std::sync::Arc::clone(&state.backups).try_acquire_owned() else {
        let words = "a backup of this server is being made already; wait for its end";
        return Err(ApiError::new(StatusCode::CONFLICT, "backup_under_way", words));
    };
    let (sender, mut pieces) = mpsc::channel::<Piece>(WAITING);
    let (made_at, stop) = (state.parts.clock.now(), state.shutdown().clone());
    state.tasks.spawn(async move {
        let _alone = alone;
        let written = tokio::select! {
            written = sunaba_backup::write(&parts, contents, made_at, sender.clone()) => written,
            () = stop.cancelled() => Err(Error::Gone),
        };
        if let Err(error) = written {
            tracing::warn!(%error, "a backup broke off");
            // Whoever reads it sees a broken stream, not an end. Nobody may be left to be told.
            let _ = sender.try_send(Err(std::io::Error::other("the backup broke off")));
        }
    });
    let stream = futures::stream::poll_fn(move |context| pieces.poll_recv(context));
    let headers = [(header::CONTENT_TYPE, "application/x-tar"), (header::CONTENT_DISPOSITION, "attachment")];
    Ok((headers, Body::from_stream(stream)).into_response())
}
