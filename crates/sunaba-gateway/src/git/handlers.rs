//! The three routes of smart HTTP.
//!
//! A push is taken whole and then handed to [`Push`], in a task of its own: a
//! client that goes away cannot leave git killed half-way.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use axum::body::Body;
use axum::extract::{Extension, Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use serde_json::json;
use sunaba_git::{MAX_COMMANDS_BYTES, Mirror, ReceiveCommands, Service, parse_receive_commands};
use sunaba_types::Sandbox;
use tokio::io::DuplexStream;
use tokio_util::io::ReaderStream;

use super::push::Push;
use super::spool::{self, SpoolError};
use crate::admission::Slot;
use crate::standing::{self, NoStanding};
use crate::{Caller, GatewayState, record};

/// Largest request for objects: a list of what is wanted and what is there.
const UPLOAD_REQUEST_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Largest push.
const PUSH_MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// How much of a fetch's answer may wait for a slow reader.
const ANSWER_WAITING_BYTES: usize = 256 * 1024;

/// The query of `info/refs`.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct InfoRefs {
    #[serde(default)]
    pub(super) service: String,
}

/// The project in a path; there may be a sandbox in it too.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct OfProject<T = String> {
    pub(super) project: T,
}

/// The answer when the sandbox has too much under way.
#[expect(clippy::needless_pass_by_value, reason = "one shape for every kind of request")]
pub(crate) fn busy(words: String) -> Response {
    said(StatusCode::SERVICE_UNAVAILABLE, &words)
}

/// `GET /git/{project}/info/refs?service=…`.
pub(crate) async fn info_refs(
    State(state): State<GatewayState>,
    Extension(caller): Extension<Caller>,
    Path(OfProject { project }): Path<OfProject>,
    Query(query): Query<InfoRefs>,
    headers: HeaderMap,
) -> Response {
    let Some(service) = Service::parse(&query.service) else {
        return said(StatusCode::FORBIDDEN, "only smart HTTP is served: git-upload-pack, git-receive-pack");
    };
    let (mirror, sandbox) = match open(&state, &caller, &project, service).await {
        Ok(opened) => opened,
        Err(response) => return response,
    };
    // Git shows the words of this answer, and of an answer to the push itself only its number.
    if service == Service::ReceivePack
        && let Err(reason) = has_room(&state, &sandbox)
    {
        return full(&state, &caller, &reason).await;
    }
    match mirror.advertise(service, protocol(&headers)).await {
        Ok(refs) => advertised(service, refs),
        Err(error) => broken(&caller, &error),
    }
}

/// The refs of a mirror as an answer.
pub(super) fn advertised(service: Service, refs: Vec<u8>) -> Response {
    answer(&format!("application/x-{}-advertisement", service.as_str()), Body::from(refs))
}

/// `POST /git/{project}/git-upload-pack`: a fetch.
pub(crate) async fn upload_pack(
    State(state): State<GatewayState>,
    Extension(caller): Extension<Caller>,
    Extension(slot): Extension<Slot>,
    Path(OfProject { project }): Path<OfProject>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let service = Service::UploadPack;
    let mirror = match open(&state, &caller, &project, service).await {
        Ok((mirror, _)) => mirror,
        Err(response) => return response,
    };
    let request = match take_request(&state, &headers, body).await {
        Ok(request) => request,
        Err(response) => return response,
    };
    let protocol = protocol(&headers).map(str::to_owned);
    let of_answer = state.clone();
    served(&of_answer, move |writer| async move {
        let result = mirror.rpc(service, protocol.as_deref(), request, writer).await;
        let error = result.err().map(|error| error.to_string());
        let payload = json!({"service": service.as_str(), "allowed": true, "refs": [], "error": error});
        record::git(&state, &caller.sandbox_id, &payload).await;
        drop(slot);
    })
}

/// Takes what a fetch asks for. The file is gone again once it is answered.
pub(super) async fn take_request(
    state: &GatewayState,
    headers: &HeaderMap,
    body: Body,
) -> Result<tokio::fs::File, Response> {
    let room = || Ok(());
    match spool::take(&state.config.git_root, headers, body, UPLOAD_REQUEST_MAX_BYTES, room).await {
        Ok(file) => Ok(tokio::fs::File::from_std(file)),
        Err(error) => Err(said(StatusCode::BAD_REQUEST, &error.to_string())),
    }
}

/// The answer to a fetch, written by work that goes on behind it.
pub(super) fn served<F>(state: &GatewayState, write: impl FnOnce(DuplexStream) -> F) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let (reader, writer) = tokio::io::duplex(ANSWER_WAITING_BYTES);
    state.tasks.spawn(write(writer));
    answer("application/x-git-upload-pack-result", Body::from_stream(ReaderStream::new(reader)))
}

/// `POST /git/{project}/git-receive-pack`: a push.
pub(crate) async fn receive_pack(
    State(state): State<GatewayState>,
    Extension(caller): Extension<Caller>,
    Extension(slot): Extension<Slot>,
    Path(OfProject { project }): Path<OfProject>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let mirror = match open_own(&state, &caller, &project) {
        Ok(mirror) => mirror,
        Err(reason) => return refused(&state, &caller, Service::ReceivePack, &reason).await,
    };
    let root = &state.config.git_root;
    let room = || state.config.push_room.check_disk(root);
    let file = match spool::take(root, &headers, body, PUSH_MAX_BYTES, room).await {
        Ok(file) => file,
        Err(SpoolError::NoRoom(reason)) => return full(&state, &caller, &reason).await,
        Err(error) => return said(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let (commands, file) = match read_commands(file).await {
        Ok(read) => read,
        Err(reason) => return said(StatusCode::BAD_REQUEST, &reason),
    };
    let push = Push { state: state.clone(), caller, mirror, commands, slot };
    let work = state.tasks.spawn(push.run(file));
    work.await.unwrap_or_else(|_| said(StatusCode::INTERNAL_SERVER_ERROR, "the push was not finished"))
}

/// Reads the refs at the start of a push and goes back to its start.
async fn read_commands(mut file: File) -> Result<(ReceiveCommands, File), String> {
    let work = tokio::task::spawn_blocking(move || {
        let mut start = Vec::new();
        // One line more than the bound, so that "too many" is told from "cut off".
        let bound = u64::try_from(MAX_COMMANDS_BYTES + 65_536).unwrap_or(u64::MAX);
        (&mut file).take(bound).read_to_end(&mut start)?;
        file.seek(SeekFrom::Start(0))?;
        Ok::<_, std::io::Error>((start, file))
    });
    let (start, file) = work.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let commands = parse_receive_commands(&start).map_err(|error| error.to_string())?;
    Ok((commands, file))
}

/// The mirror that a path names, if it is the caller's own and the caller still has its say.
async fn open(
    state: &GatewayState,
    caller: &Caller,
    project: &str,
    service: Service,
) -> Result<(Mirror, Sandbox), Response> {
    let mirror = match open_own(state, caller, project) {
        Ok(mirror) => mirror,
        Err(reason) => return Err(refused(state, caller, service, &reason).await),
    };
    match standing::check(&*state.config.store, caller).await {
        Ok(sandbox) => Ok((mirror, sandbox)),
        Err(NoStanding::Store(error)) => {
            tracing::warn!(sandbox_id = %caller.sandbox_id, %error, "a git request could not be checked");
            Err(said(StatusCode::SERVICE_UNAVAILABLE, "the store is not available; try again later"))
        }
        Err(reason) => Err(refused(state, caller, service, &reason.to_string()).await),
    }
}

fn open_own(state: &GatewayState, caller: &Caller, project: &str) -> Result<Mirror, String> {
    let asked = project.strip_suffix(".git").unwrap_or(project);
    let own = caller.project_id.as_ref().filter(|own| own.as_str() == asked || own.as_str() == project);
    let own = own.ok_or_else(|| format!("this sandbox has no access to the project {asked}"))?;
    Mirror::open(state.config.git_root.join(format!("{own}.git")))
        .map_err(|_| format!("the project {own} has no repository here yet"))
}

async fn refused(state: &GatewayState, caller: &Caller, service: Service, reason: &str) -> Response {
    let payload = json!({"service": service.as_str(), "allowed": false, "reason": reason, "refs": []});
    record::git(state, &caller.sandbox_id, &payload).await;
    said(StatusCode::FORBIDDEN, reason)
}

/// Whether anything of a push could be kept.
fn has_room(state: &GatewayState, sandbox: &Sandbox) -> Result<(), String> {
    let room = &state.config.push_room;
    room.check_disk(&state.config.git_root)?;
    if room.left(sandbox) == 0 { Err(room.too_much(sandbox)) } else { Ok(()) }
}

async fn full(state: &GatewayState, caller: &Caller, reason: &str) -> Response {
    let service = Service::ReceivePack.as_str();
    let payload = json!({"service": service, "allowed": false, "reason": reason, "refs": []});
    record::git(state, &caller.sandbox_id, &payload).await;
    said(StatusCode::INSUFFICIENT_STORAGE, reason)
}

pub(super) fn broken(caller: &Caller, error: &sunaba_git::Error) -> Response {
    broken_for(caller.sandbox_id.as_str(), error)
}

pub(super) fn broken_for(whom: &str, error: &sunaba_git::Error) -> Response {
    tracing::warn!(whom, %error, "git failed");
    said(StatusCode::INTERNAL_SERVER_ERROR, "git failed on the server; try again")
}

/// Plain text: git prints it after `remote:`.
pub(super) fn said(status: StatusCode, words: &str) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{words}\n")).into_response()
}

pub(super) fn pushed(report: Vec<u8>) -> Response {
    answer("application/x-git-receive-pack-result", Body::from(report))
}

fn answer(content_type: &str, body: Body) -> Response {
    let headers = [(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, "no-cache")];
    (headers, body).into_response()
}

pub(super) fn protocol(headers: &HeaderMap) -> Option<&str> {
    headers.get("git-protocol").and_then(|value| value.to_str().ok())
}
