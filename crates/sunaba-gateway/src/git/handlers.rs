//! The three routes of smart HTTP.
//!
//! A push is taken whole, then checked and handed to git under the project's
//! lock, in a task of its own: a client that goes away cannot leave git killed
//! half-way. A refused push is answered in git's own words, so that git prints
//! the reason beside the ref.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};
use sunaba_git::{
    MAX_COMMANDS_BYTES, Mirror, ReceiveCommands, Service, parse_receive_commands, read_report, refusal_report,
};
use tokio_util::io::ReaderStream;

use super::{guard, spool};
use crate::admission::Slot;
use crate::standing::{self, NoStanding};
use crate::{Caller, GatewayState, record};

/// Largest request for objects: a list of what is wanted and what is there.
const UPLOAD_REQUEST_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Largest push.
const PUSH_MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// How long a push waits for the project's other pushes.
const LOCK_PATIENCE: Duration = Duration::from_secs(120);
/// How much of a fetch's answer may wait for a slow reader.
const ANSWER_WAITING_BYTES: usize = 256 * 1024;

/// The query of `info/refs`.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct InfoRefs {
    #[serde(default)]
    service: String,
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
    Path(project): Path<String>,
    Query(query): Query<InfoRefs>,
    headers: HeaderMap,
) -> Response {
    let Some(service) = Service::parse(&query.service) else {
        return said(StatusCode::FORBIDDEN, "only smart HTTP is served: git-upload-pack, git-receive-pack");
    };
    let mirror = match open(&state, &caller, &project, service).await {
        Ok(mirror) => mirror,
        Err(response) => return response,
    };
    match mirror.advertise(service, protocol(&headers)).await {
        Ok(refs) => answer(&format!("application/x-{}-advertisement", service.as_str()), Body::from(refs)),
        Err(error) => broken(&caller, &error),
    }
}

/// `POST /git/{project}/git-upload-pack`: a fetch.
pub(crate) async fn upload_pack(
    State(state): State<GatewayState>,
    Extension(caller): Extension<Caller>,
    Extension(slot): Extension<Slot>,
    Path(project): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let service = Service::UploadPack;
    let mirror = match open(&state, &caller, &project, service).await {
        Ok(mirror) => mirror,
        Err(response) => return response,
    };
    let request = match spool::take(&state.config.git_root, &headers, body, UPLOAD_REQUEST_MAX_BYTES).await {
        Ok(file) => tokio::fs::File::from_std(file),
        Err(error) => return said(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let (reader, writer) = tokio::io::duplex(ANSWER_WAITING_BYTES);
    let protocol = protocol(&headers).map(str::to_owned);
    let tasks = state.tasks.clone();
    tasks.spawn(async move {
        let result = mirror.rpc(service, protocol.as_deref(), request, writer).await;
        let error = result.err().map(|error| error.to_string());
        let payload = json!({"service": service.as_str(), "allowed": true, "refs": [], "error": error});
        record::git(&state, &caller.sandbox_id, &payload).await;
        drop(slot);
    });
    answer("application/x-git-upload-pack-result", Body::from_stream(ReaderStream::new(reader)))
}

/// `POST /git/{project}/git-receive-pack`: a push.
pub(crate) async fn receive_pack(
    State(state): State<GatewayState>,
    Extension(caller): Extension<Caller>,
    Extension(slot): Extension<Slot>,
    Path(project): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let mirror = match open_own(&state, &caller, &project) {
        Ok(mirror) => mirror,
        Err(reason) => return refused(&state, &caller, Service::ReceivePack, &reason).await,
    };
    let file = match spool::take(&state.config.git_root, &headers, body, PUSH_MAX_BYTES).await {
        Ok(file) => file,
        Err(error) => return said(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let (commands, file) = match read_commands(file).await {
        Ok(read) => read,
        Err(reason) => return said(StatusCode::BAD_REQUEST, &reason),
    };
    let push = Push { state: state.clone(), caller, mirror, commands, _slot: slot };
    let work = state.tasks.spawn(push.run(file));
    work.await.unwrap_or_else(|_| said(StatusCode::INTERNAL_SERVER_ERROR, "the push was not finished"))
}

/// A push that has arrived.
struct Push {
    state: GatewayState,
    caller: Caller,
    mirror: Mirror,
    commands: ReceiveCommands,
    /// A push whose client went away counts until it is done.
    _slot: Slot,
}

impl Push {
    async fn run(self, file: File) -> Response {
        let project = self.caller.project_id.as_ref().map_or("", |id| id.as_str());
        let guard = match self.state.config.locks.lock_within(project, LOCK_PATIENCE).await {
            Ok(guard) => guard,
            Err(error) => {
                self.record(false, Some(&error.to_string()), &[]).await;
                return pushed(refusal_report(&self.commands, &error.to_string()));
            }
        };
        let permitted = match standing::check(&*self.state.config.store, &self.caller).await {
            Ok(sandbox) => guard::check(&sandbox, &self.commands.updates),
            Err(reason) => Err(reason.to_string()),
        };
        if let Err(reason) = permitted {
            drop(guard);
            self.record(false, Some(&reason), &[]).await;
            return pushed(refusal_report(&self.commands, &reason));
        }
        let mut report = Vec::new();
        let file = tokio::fs::File::from_std(file);
        let result = self.mirror.rpc(Service::ReceivePack, None, file, &mut report).await;
        drop(guard);
        let error = result.as_ref().err().map(ToString::to_string);
        self.record(true, error.as_deref(), &report).await;
        match result {
            // Git says in its report what it did; an exit status alone is no answer.
            Err(error) if report.is_empty() => broken(&self.caller, &error),
            _ => pushed(report),
        }
    }

    async fn record(&self, allowed: bool, reason: Option<&str>, report: &[u8]) {
        if self.commands.updates.is_empty() {
            return; // The empty request by which clients try whether they may push.
        }
        let outcome = read_report(&self.commands, report);
        let refs: Vec<Value> = self
            .commands
            .updates
            .iter()
            .map(|update| {
                let seen = outcome.iter().find(|report| report.name == update.name);
                let refused =
                    if allowed { seen.and_then(|report| report.refused.as_deref()) } else { reason };
                json!({
                    "name": update.name,
                    "old": update.old,
                    "new": update.new,
                    "written": seen.is_some_and(|report| report.refused.is_none()),
                    "refused": refused,
                })
            })
            .collect();
        let service = Service::ReceivePack.as_str();
        let payload = json!({"service": service, "allowed": allowed, "reason": reason, "refs": refs});
        record::git(&self.state, &self.caller.sandbox_id, &payload).await;
    }
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
) -> Result<Mirror, Response> {
    let mirror = match open_own(state, caller, project) {
        Ok(mirror) => mirror,
        Err(reason) => return Err(refused(state, caller, service, &reason).await),
    };
    match standing::check(&*state.config.store, caller).await {
        Ok(_) => Ok(mirror),
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

fn broken(caller: &Caller, error: &sunaba_git::Error) -> Response {
    tracing::warn!(sandbox_id = %caller.sandbox_id, %error, "git failed");
    said(StatusCode::INTERNAL_SERVER_ERROR, "git failed on the server; try again")
}

/// Plain text: git prints it after `remote:`.
fn said(status: StatusCode, words: &str) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{words}\n")).into_response()
}

fn pushed(report: Vec<u8>) -> Response {
    answer("application/x-git-receive-pack-result", Body::from(report))
}

fn answer(content_type: &str, body: Body) -> Response {
    let headers = [(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, "no-cache")];
    (headers, body).into_response()
}

fn protocol(headers: &HeaderMap) -> Option<&str> {
    headers.get("git-protocol").and_then(|value| value.to_str().ok())
}
