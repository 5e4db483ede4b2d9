//! Git requests for a project whose mirror another node has: passed on to it as they are.
//!
//! The other node is told who asks, and decides: this one has only looked at the token. While it is away
//! the request is held, as the bridge holds one while this server is away.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures::TryStreamExt as _;
use http::{HeaderName, StatusCode, Uri, header};
use sunaba_git::Service;
use sunaba_nodes::wire::{ATTEMPT_HEADER, PROJECT_HEADER};
use sunaba_nodes::{Error, Nodes, Where};
use sunaba_types::{NodeId, ProjectId, SandboxId};

use super::handlers::said;
use crate::{Caller, GatewayState};

/// How long a request waits for a node that is away: as long as the bridge waits for this one.
const HELD_FOR: Duration = Duration::from_secs(60 * 60);
/// What of a request's head the other node needs.
const PASSED: [HeaderName; 4] =
    [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::ACCEPT, HeaderName::from_static("git-protocol")];

/// Passes a request on if its mirror is elsewhere.
pub(crate) async fn pass_on(State(state): State<GatewayState>, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>().cloned();
    let (Some(nodes), Some(caller)) = (&state.config.nodes, caller) else { return next.run(request).await };
    let Some(project) = &caller.project_id else { return next.run(request).await };
    match nodes.patiently(HELD_FOR, || nodes.home_of(project)).await {
        Ok(Where::Here) => next.run(request).await,
        Ok(Where::There(home)) => match passed_path(&caller.sandbox_id, project, request.uri()) {
            Some(path) => {
                let to = Passing { nodes, home: &home, caller: &caller, project, path: &path };
                to.carry(request).await
            }
            // Whatever it is, it is nothing that its home could answer: the handlers here say why not.
            None => next.run(request).await,
        },
        Err(error) => unreachable(&caller, &error),
    }
}

/// Where the other node takes a sandbox's request. Made of what is known here, never of what the sandbox wrote:
/// that would be a way to other addresses with the nodes' token.
fn passed_path(sandbox: &SandboxId, project: &ProjectId, asked: &Uri) -> Option<String> {
    let (named, action) = asked.path().strip_prefix("/git/")?.split_once('/')?;
    if named.strip_suffix(".git").unwrap_or(named) != project.as_str() {
        return None;
    }
    let action = match action {
        "info/refs" => {
            let service = asked.query()?.split('&').find_map(|pair| pair.strip_prefix("service="))?;
            format!("info/refs?service={}", Service::parse(service)?.as_str())
        }
        "git-upload-pack" | "git-receive-pack" => action.to_owned(),
        _ => return None,
    };
    Some(format!("/sandboxes/{sandbox}/git/{project}/{action}"))
}

/// One request on its way to the node that has the mirror.
struct Passing<'a> {
    nodes: &'a Nodes,
    home: &'a NodeId,
    caller: &'a Caller,
    project: &'a ProjectId,
    path: &'a str,
}

impl Passing<'_> {
    async fn carry(&self, request: Request) -> Response {
        let Self { nodes, home, caller, project, path } = self;
        let (head, body) = request.into_parts();
        // Before the body is touched, which can be sent only once: is it there?
        if let Err(error) = nodes.patiently(HELD_FOR, || nodes.reach(home)).await {
            return unreachable(caller, &error);
        }
        let mut asked = match nodes.ask(home, head.method.clone(), path).await {
            Ok(asked) => {
                asked.header(ATTEMPT_HEADER, caller.attempt).header(PROJECT_HEADER, project.as_str())
            }
            Err(error) => return unreachable(caller, &error),
        };
        for name in PASSED {
            if let Some(value) = head.headers.get(&name) {
                asked = asked.header(name, value);
            }
        }
        let asked = asked.body(reqwest::Body::wrap_stream(body.into_data_stream()));
        match asked.send().await {
            Ok(answer) => passed_back(answer),
            Err(error) => {
                tracing::warn!(sandbox_id = %caller.sandbox_id, error = %error.without_url(), "a git request was cut off");
                said(StatusCode::BAD_GATEWAY, "the node that has the repository went away; try again")
            }
        }
    }
}

fn passed_back(answer: reqwest::Response) -> Response {
    let mut response = Response::builder().status(answer.status());
    for name in [header::CONTENT_TYPE, header::CACHE_CONTROL] {
        if let Some(value) = answer.headers().get(&name) {
            response = response.header(name, value);
        }
    }
    let body = answer.bytes_stream().map_err(reqwest::Error::without_url);
    let built = response.body(Body::from_stream(body));
    built.unwrap_or_else(|_| said(StatusCode::BAD_GATEWAY, "another node's answer could not be read"))
}

fn unreachable(caller: &Caller, error: &Error) -> Response {
    tracing::warn!(sandbox_id = %caller.sandbox_id, %error, "a git request could not be passed on");
    said(StatusCode::SERVICE_UNAVAILABLE, &format!("{error}; try again later"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_mirror_is_asked_for_elsewhere() {
        let (sandbox, project) = (SandboxId::parse("sbx_1").unwrap(), ProjectId::parse("prj_1").unwrap());
        let passed = |asked: &'static str| passed_path(&sandbox, &project, &Uri::from_static(asked));
        for (asked, path) in [
            ("/git/prj_1/git-receive-pack", "/sandboxes/sbx_1/git/prj_1/git-receive-pack"),
            ("/git/prj_1.git/git-upload-pack?x=1", "/sandboxes/sbx_1/git/prj_1/git-upload-pack"),
            (
                "/git/prj_1/info/refs?a=b&service=git-upload-pack",
                "/sandboxes/sbx_1/git/prj_1/info/refs?service=git-upload-pack",
            ),
        ] {
            assert_eq!(passed(asked).as_deref(), Some(path));
        }
        for asked in [
            "/git/prj_2/git-receive-pack",
            "/git/..\\..\\..\\git\\prj_1/info/refs?service=git-upload-pack",
            "/git/..%2F..%2Fprj_1/git-upload-pack",
            "/git/prj_1/../../x",
            "/git/prj_1/info/refs?service=git-upload-pack/../../x",
            "/git/prj_1/info/refs",
        ] {
            assert_eq!(passed(asked), None, "{asked}");
        }
    }
}
