//! One WebSocket, from its first frame to its close.
//!
//! Holds a position in the feed and sends what comes after it. A reader that
//! does not read is cut off: it is told where to go on, gets a while to read
//! that, and never slows anyone else.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use futures::SinkExt as _;
use http::{Extensions, HeaderMap};
use tokio::sync::watch;
use tokio::time::Instant;

use super::wire::{self, ClientFrame};
use crate::auth::{Identity, Role};
use crate::hub::{Frame, HANDFUL, Reading};
use crate::layers::gate::recognise;
use crate::telemetry::{Open, WEBSOCKETS};
use crate::{ApiError, AppState, Filters};

const CLOSE_UNAUTHORIZED: u16 = 4401;
const CLOSE_TRY_LATER: u16 = 1013;
const CLOSE_POLICY: u16 = 1008;
const CLOSE_GOING_AWAY: u16 = 1001;
/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// What the opening request showed.
#[derive(Debug)]
pub(super) struct Entrance {
    pub(super) token: Option<String>,
    pub(super) headers: HeaderMap,
    pub(super) extensions: Extensions,
}

/// Why a session ends.
#[derive(Debug)]
enum End {
    /// The other side is gone.
    Gone,
    /// Said goodbye with a code and, before it, a frame.
    Close { code: u16, frame: Option<String> },
    /// The reader is too slow.
    Slow,
}

/// A subscriber.
#[derive(Debug)]
pub(super) struct Session {
    state: AppState,
    filters: Filters,
    /// Where the reader is; `None` until the feed has been read once.
    position: Option<i64>,
    /// Has once been up to date: from then on it may not fall behind the ring.
    caught_up: bool,
}

impl Session {
    pub(super) fn new(state: AppState, filters: Filters, after: Option<i64>, head: Option<i64>) -> Self {
        Self { state, filters, position: head.map(|head| after.unwrap_or(head)), caught_up: after.is_none() }
    }

    pub(super) async fn run(mut self, mut socket: WebSocket, mut entrance: Entrance) {
        let _open = Open::count(WEBSOCKETS);
        let end = match self.enter(&mut socket, &mut entrance).await {
            Ok((identity, position)) => self.watch(&mut socket, &entrance, identity, position).await,
            Err(end) => end,
        };
        self.leave(&mut socket, end).await;
    }

    /// Finds out who it is, by the opening request or by the first frame.
    async fn enter(
        &mut self,
        socket: &mut WebSocket,
        entrance: &mut Entrance,
    ) -> Result<(Identity, i64), End> {
        let mut known = self.recognise(entrance).await;
        if entrance.token.is_none() && known.is_err() {
            let limit = self.state.config().live.auth_timeout;
            entrance.token = tokio::time::timeout(limit, first_token(socket)).await.unwrap_or(None);
            known = self.recognise(entrance).await;
        }
        let identity = known.map_err(|error| {
            let code = if error.status().is_server_error() { CLOSE_TRY_LATER } else { CLOSE_UNAUTHORIZED };
            End::Close { code, frame: Some(wire::error(&error.detail())) }
        })?;
        match self.position {
            Some(position) => Ok((identity, position)),
            None => Err(End::Close { code: CLOSE_TRY_LATER, frame: Some(wire::error("not ready yet")) }),
        }
    }

    async fn recognise(&self, entrance: &Entrance) -> Result<Identity, ApiError> {
        let token = entrance.token.as_deref();
        let identity = recognise(&self.state, token, &entrance.headers, &entrance.extensions).await?;
        match &identity.role {
            Role::Open | Role::Admin => Ok(identity),
            Role::Personal(grant) if grant.read => Ok(identity),
            Role::Personal(_) | Role::Sandbox(_) => {
                Err(ApiError::unauthorized("this token may not watch events"))
            }
        }
    }

    /// Sends what comes and answers what is said, until one side leaves.
    async fn watch(
        &mut self,
        socket: &mut WebSocket,
        entrance: &Entrance,
        identity: Identity,
        position: i64,
    ) -> End {
        let live = self.state.config().live;
        let mut reader = Reader { identity, position };
        let mut head = self.state.hub.subscribe();
        let shutdown = self.state.shutdown().clone();
        let mut stopped = std::pin::pin!(shutdown.cancelled());
        let (mut last_sent, mut next_check) = (Instant::now(), Instant::now() + live.recheck_every);
        // Rings at the next check or ping. A ping that has become due later is found out when it rings, so
        // that no event costs a change of timers.
        let mut alarm = std::pin::pin!(tokio::time::sleep_until(next_check.min(last_sent + live.ping_every)));
        loop {
            if shutdown.is_cancelled() {
                return End::Close { code: CLOSE_GOING_AWAY, frame: None };
            }
            // In every round: neither a busy feed nor a talkative client puts the question off.
            if Instant::now() >= next_check {
                next_check = Instant::now() + live.recheck_every;
                if let Err(end) = self.check(entrance, &mut reader).await {
                    return end;
                }
            }
            match self.send_new(socket, &mut reader, &mut head).await {
                Ok(Sent::Something) => last_sent = Instant::now(),
                Ok(Sent::Nothing) => {}
                Err(end) => return end,
            }
            tokio::select! {
                biased;
                frame = socket.recv() => {
                    if let Err(end) = self.answer(socket, frame, reader.position).await {
                        return end;
                    }
                }
                changed = head.changed() => if changed.is_err() { return End::Gone },
                () = stopped.as_mut() => {}
                () = alarm.as_mut() => {
                    if Instant::now() >= last_sent + live.ping_every {
                        if let Err(end) = self.send(socket, vec![Message::text(wire::PING)]).await {
                            return end;
                        }
                        last_sent = Instant::now();
                    }
                    alarm.as_mut().reset(next_check.min(last_sent + live.ping_every));
                }
            }
        }
    }

    /// Asks again whether the token opens the feed.
    async fn check(&self, entrance: &Entrance, reader: &mut Reader) -> Result<(), End> {
        match self.recognise(entrance).await {
            Ok(identity) => reader.identity = identity,
            Err(error) if error.status().is_server_error() => {}
            Err(error) => {
                let frame = Some(wire::error(&error.detail()));
                return Err(End::Close { code: CLOSE_UNAUTHORIZED, frame });
            }
        }
        Ok(())
    }

    /// Sends one handful of what is new. Returns at once when there is nothing.
    async fn send_new(
        &mut self,
        socket: &mut WebSocket,
        reader: &mut Reader,
        head: &mut watch::Receiver<Option<i64>>,
    ) -> Result<Sent, End> {
        // Mark as seen before reading: what comes in between wakes the caller's wait.
        head.borrow_and_update();
        let frames = match self.state.hub.read(reader.position) {
            Reading::Frames(frames) => {
                self.caught_up |= frames.len() < HANDFUL;
                frames
            }
            Reading::Past if self.caught_up => {
                self.position = Some(reader.position);
                return Err(End::Slow);
            }
            Reading::Past => {
                // Wherever this page ends, the next one is asked for without waiting for a signal.
                head.mark_changed();
                self.read_stored(reader.position).await?
            }
        };
        let Some(last) = frames.last().map(|frame| frame.position()) else { return Ok(Sent::Nothing) };
        if frames.len() >= HANDFUL {
            // More is waiting: come back without waiting for a signal.
            head.mark_changed();
        }
        let wanted: Vec<Message> = frames
            .iter()
            .filter(|frame| reader.may_see(frame) && self.filters.wants(frame))
            .map(text_of)
            .collect();
        reader.position = last;
        self.position = Some(last);
        if wanted.is_empty() {
            return Ok(Sent::Nothing);
        }
        self.send(socket, wanted).await?;
        Ok(Sent::Something)
    }

    async fn read_stored(&self, after: i64) -> Result<Vec<Arc<Frame>>, End> {
        self.state.hub.read_stored(after).await.map_err(|error| {
            tracing::warn!(%error, "a subscriber's backlog cannot be read");
            End::Close { code: CLOSE_TRY_LATER, frame: Some(wire::overflow(after)) }
        })
    }

    /// Sends within the time that a reader may take.
    async fn send(&self, socket: &mut WebSocket, messages: Vec<Message>) -> Result<(), End> {
        let sending = async {
            for message in messages {
                socket.feed(message).await?;
            }
            socket.flush().await
        };
        let sent = tokio::select! {
            // Most sends are done at once, and then nothing else is asked.
            biased;
            sent = tokio::time::timeout(self.state.config().live.send_timeout, sending) => sent,
            () = self.out_of_time() => return Err(End::Gone),
        };
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Gone),
            Err(_) => Err(End::Slow),
        }
    }

    /// Comes when the server stops and even a goodbye would be late: no reader holds up a shutdown.
    async fn out_of_time(&self) {
        self.state.shutdown().cancelled().await;
        tokio::time::sleep(GOODBYE).await;
    }

    /// Does what a client's frame asks.
    async fn answer(
        &mut self,
        socket: &mut WebSocket,
        frame: Option<Result<Message, axum::Error>>,
        position: i64,
    ) -> Result<(), End> {
        let text = match frame {
            None | Some(Err(_) | Ok(Message::Close(_))) => return Err(End::Gone),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(()),
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Binary(bytes))) => Utf8Bytes::try_from(bytes).unwrap_or_default(),
        };
        let reply = match wire::read(&text) {
            None => wire::error("Invalid JSON message"),
            Some(ClientFrame::Unknown) => wire::error("Unknown message type"),
            Some(ClientFrame::Ping) => wire::PONG.to_owned(),
            // Showing the token again changes nothing.
            Some(ClientFrame::Auth(_)) => return Ok(()),
            Some(ClientFrame::Subscribe(change)) => {
                change.apply(&mut self.filters);
                wire::subscribed(&self.filters, position)
            }
        };
        self.send(socket, vec![Message::text(reply)]).await
    }

    /// Says goodbye, within bounds.
    async fn leave(&self, socket: &mut WebSocket, end: End) {
        let (code, frame, limit) = match end {
            End::Gone => return,
            End::Close { code, frame } => (code, frame, GOODBYE),
            End::Slow => {
                self.state.hub.count_cut_reader();
                let frame = wire::overflow(self.position.unwrap_or_default());
                (CLOSE_POLICY, Some(frame), self.state.config().live.cut_grace)
            }
        };
        let goodbye = async {
            if let Some(frame) = frame {
                socket.send(Message::text(frame)).await?;
            }
            socket.send(Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::default() }))).await?;
            // Until the other side has closed too, so that what was sent is not cut off by a reset.
            while let Some(Ok(_)) = socket.recv().await {}
            Ok::<(), axum::Error>(())
        };
        // A reader that does not even take this is dropped.
        tokio::select! {
            _ = tokio::time::timeout(limit, goodbye) => {}
            () = self.out_of_time() => {}
        }
    }
}

enum Sent {
    Something,
    Nothing,
}

/// Who reads, and how far it has come.
#[derive(Debug)]
struct Reader {
    identity: Identity,
    position: i64,
}

impl Reader {
    fn may_see(&self, frame: &Frame) -> bool {
        self.identity.sees_project(frame.project_id())
    }
}

fn text_of(frame: &Arc<Frame>) -> Message {
    Message::Text(frame.text())
}

/// The token in the first frame that says something.
async fn first_token(socket: &mut WebSocket) -> Option<String> {
    loop {
        match socket.recv().await? {
            Ok(Message::Text(text)) => {
                return match wire::read(&text) {
                    Some(ClientFrame::Auth(token)) => Some(token),
                    _ => None,
                };
            }
            Ok(Message::Ping(_) | Message::Pong(_)) => {}
            Ok(Message::Binary(_) | Message::Close(_)) | Err(_) => return None,
        }
    }
}
