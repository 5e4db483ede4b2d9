//! `GET /api/v1/sandboxes/{id}/events/stream`: the log as server-sent events, live.
//!
//! `id:` is the event's seq. The stream goes on from `Last-Event-ID` (or
//! `after_seq`), and ends after the event that says that the sandbox ended.
//! Backpressure is the connection's own: the next page is read when the last
//! one has been taken.

use std::convert::Infallible;
use std::fmt::Write as _;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::Stream;
use http::{Extensions, HeaderMap, header};
use sunaba_types::{ProjectId, SandboxId, StoredEvent};
use tokio::time::Instant;

use crate::api::views::EventView;
use crate::auth::{Reader, from_headers, from_query, visible_sandbox};
use crate::extract::list::parse_position;
use crate::extract::{IdPath, Params};
use crate::hub::Watch;
use crate::layers::gate::{PathToken, recognise};
use crate::telemetry::{Open, STREAMS};
use crate::{ApiError, AppState};

const PAGE: u32 = 64;

/// The log from a place on, live, until the sandbox has ended.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/events/stream", tag = "events",
    operation_id = "stream_events",
    params(("id" = String, Path), ("after_seq" = Option<i64>, Query, minimum = 0),
        ("Last-Event-ID" = Option<String>, Header, description = "Goes before `after_seq`")),
    responses((status = 200, body = String, content_type = "text/event-stream")))]
pub(crate) async fn stream(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<SandboxId>,
    headers: HeaderMap,
    uri: http::Uri,
    extensions: Extensions,
    mut params: Params,
) -> Result<Response, ApiError> {
    let mut after = params.number("after_seq", 0..=i64::MAX).unwrap_or(0);
    if let Some(last) = headers.get("last-event-id").filter(|value| !value.is_empty()) {
        match last.to_str().map_err(|_| "must be a whole number from 0").and_then(parse_position) {
            Ok(seq) => after = seq,
            Err(detail) => params.fault("Last-Event-ID", detail),
        }
    }
    params.finish()?;
    let project_id = visible_sandbox(&state, &identity, &id).await?.project_id;
    let token = match extensions.get() {
        Some(PathToken(token)) => Some(token.clone()),
        None => from_headers(&headers).or_else(|| from_query(uri.query())),
    };
    let live = state.config().live;
    let cursor = Cursor {
        watch: state.hub.watch(&id),
        state,
        id,
        after,
        entrance: Entrance { token, headers, extensions, project_id },
        next_check: Instant::now() + live.recheck_every,
        next_ping: Instant::now() + live.ping_every / 2,
        phase: Phase::Greeting,
        _open: Open::count(STREAMS),
    };
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache, no-store")];
    Ok((headers, Body::from_stream(pieces(cursor))).into_response())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing was sent yet.
    Greeting,
    /// Events are sent as they come.
    Live,
    /// The last event was sent.
    Over,
}

#[derive(Debug)]
struct Cursor {
    state: AppState,
    id: SandboxId,
    after: i64,
    watch: Watch,
    entrance: Entrance,
    next_check: Instant,
    next_ping: Instant,
    phase: Phase,
    _open: Open,
}

/// What the request showed, to be asked about again, and what it was shown for.
#[derive(Debug)]
struct Entrance {
    token: Option<String>,
    headers: HeaderMap,
    extensions: Extensions,
    project_id: Option<ProjectId>,
}

fn pieces(cursor: Cursor) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    futures::stream::unfold(cursor, |mut cursor| async move {
        let piece = cursor.next_piece().await?;
        Some((Ok(piece), cursor))
    })
}

impl Cursor {
    async fn next_piece(&mut self) -> Option<Bytes> {
        match self.phase {
            Phase::Over => return None,
            Phase::Greeting => {
                // Opens the stream at the client before anything has happened.
                self.phase = Phase::Live;
                return Some(Bytes::from_static(b": listening\n\n"));
            }
            Phase::Live => {}
        }
        loop {
            // Before every piece: neither a busy log nor a patient reader puts the question off.
            if Instant::now() >= self.next_check {
                self.next_check = Instant::now() + self.state.config().live.recheck_every;
                if !self.still_allowed().await {
                    return None;
                }
            }
            // Mark as seen before looking: what comes in between wakes the wait below.
            self.watch.events.borrow_and_update();
            match self.look().await {
                Ok(Some(piece)) => return Some(piece),
                Ok(None) if self.phase == Phase::Over => return None,
                Ok(None) => {}
                // The client comes back with its last seq; a stream that is silent because the store is away
                // would look like a sandbox that does nothing.
                Err(error) => {
                    tracing::warn!(code = error.code(), sandbox_id = %self.id, "an event stream ends early");
                    return None;
                }
            }
            if let Some(keep_alive) = self.rest().await? {
                return Some(keep_alive);
            }
        }
    }

    /// The next events, or that there are none now.
    async fn look(&mut self) -> Result<Option<Bytes>, ApiError> {
        let mut events = self.state.store().events_after(&self.id, self.after, PAGE).await?;
        if events.is_empty() && self.state.store().sandbox_state(&self.id).await?.is_terminal() {
            // It may have ended between the two questions, with its last event.
            events = self.state.store().events_after(&self.id, self.after, PAGE).await?;
            if events.is_empty() {
                self.phase = Phase::Over;
            }
        }
        let Some(last) = events.last() else { return Ok(None) };
        self.after = last.seq;
        let mut text = String::new();
        for event in events {
            write_event(&mut text, event);
        }
        Ok(Some(text.into()))
    }

    /// Waits for something new. `Some(None)`: look again; `None`: the stream is over.
    async fn rest(&mut self) -> Option<Option<Bytes>> {
        tokio::select! {
            changed = self.watch.events.changed() => changed.ok().map(|()| None),
            () = self.state.shutdown().cancelled() => None,
            () = tokio::time::sleep_until(self.next_check.min(self.next_ping)) => {
                if Instant::now() < self.next_ping {
                    return Some(None);
                }
                self.next_ping = Instant::now() + self.state.config().live.ping_every / 2;
                Some(Some(Bytes::from_static(b": still here\n\n")))
            }
        }
    }

    /// Whether what opened the stream still opens it.
    async fn still_allowed(&self) -> bool {
        let Entrance { token, headers, extensions, project_id } = &self.entrance;
        match recognise(&self.state, token.as_deref(), headers, extensions).await {
            Ok(identity) => Reader::of(identity).is_ok_and(|Reader(it)| it.sees_project(project_id.as_ref())),
            Err(error) => error.status().is_server_error(),
        }
    }
}

fn write_event(text: &mut String, event: StoredEvent) {
    let seq = event.seq;
    // The payload is kept as received and may hold line breaks; each must begin with `data:` again.
    let json = serde_json::to_string(&EventView::from(event)).unwrap_or_default();
    let _ = writeln!(text, "id: {seq}");
    for line in json.split(['\n', '\r']).filter(|line| !line.is_empty()) {
        let _ = writeln!(text, "data: {line}");
    }
    text.push('\n');
}
