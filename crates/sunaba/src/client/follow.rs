//! Follows a sandbox's log over a connection that may break.
//!
//! Every event is given once and in order: after a break the stream is taken up again from the last
//! `seq` that was given. The server is looked for anew each time, because it may have come back at
//! another address. Gives up when it stays away for [`PATIENCE`], or says that there is no such log.

use std::time::Duration;

use futures::StreamExt;
use sunaba_types::SandboxState;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::http::Client;
use super::place::Place;
use super::sse::{Frame, Parser};
use super::wire::Event;
use crate::failure::{Failure, Outcome};

/// How long the server may stay away.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// How long a stream may say nothing, keep-alive comments included.
const SILENCE: Duration = Duration::from_secs(75);
/// Most events that wait for a slow terminal; after that the connection waits.
const WAITING_MAX: usize = 256;
/// The first and the longest pause between attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// What a follower has to say.
#[derive(Debug)]
pub(crate) enum News {
    /// The next event.
    Event(Box<Event>),
    /// The connection broke; it is being made again.
    Lost,
    /// The connection is back.
    Back,
    /// The sandbox has ended and everything was given.
    Ended(SandboxState),
    /// It cannot go on.
    Over(Failure),
}

/// Follows one sandbox; stops when dropped.
#[derive(Debug)]
pub(crate) struct Follower {
    news: mpsc::Receiver<News>,
    task: JoinHandle<()>,
}

impl Follower {
    /// Starts to follow after the given place in the log.
    pub(crate) fn start(place: Place, sandbox_id: String, after_seq: i64) -> Self {
        let (sender, news) = mpsc::channel(WAITING_MAX);
        let state = State { place, sandbox_id, last_seq: after_seq, sender };
        Self { news, task: tokio::spawn(state.run()) }
    }

    /// The next piece of news; `None` after [`News::Ended`] or [`News::Over`]. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Option<News> {
        self.news.recv().await
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct State {
    place: Place,
    sandbox_id: String,
    last_seq: i64,
    sender: mpsc::Sender<News>,
}

/// How one connection ended.
enum Ending {
    /// Nobody listens any more.
    Unwanted,
    /// It broke after it had worked.
    Broken(String),
    /// There is nothing more to come.
    Complete(SandboxState),
}

impl State {
    async fn run(mut self) {
        let mut away_since: Option<Instant> = None;
        let mut pause = PAUSES.0;
        loop {
            let attempt = self.connection(&mut away_since).await;
            let why = match attempt {
                Ok(Ending::Unwanted) => return,
                Ok(Ending::Complete(state)) => return self.say(News::Ended(state)).await,
                Ok(Ending::Broken(why)) => {
                    pause = PAUSES.0;
                    why
                }
                Err(failure) if is_final(&failure) => return self.say(News::Over(failure)).await,
                Err(failure) => failure.to_string(),
            };
            let since = *away_since.get_or_insert_with(Instant::now);
            if since.elapsed() > PATIENCE {
                return self.say(News::Over(Failure::Unreachable(why))).await;
            }
            if self.sender.send(News::Lost).await.is_err() {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    async fn say(&self, last: News) {
        // Nobody left to hear it is as good as heard.
        let _ = self.sender.send(last).await;
    }

    async fn connection(&mut self, away_since: &mut Option<Instant>) -> Outcome<Ending> {
        let client = self.place.client()?;
        let path = format!("/api/v1/sandboxes/{}/events/stream?after_seq={}", self.sandbox_id, self.last_seq);
        let response = client.open_stream(&path).await?;
        if away_since.take().is_some() && self.sender.send(News::Back).await.is_err() {
            return Ok(Ending::Unwanted);
        }
        let mut parser = Parser::default();
        let mut body = response.bytes_stream();
        loop {
            let piece = match tokio::time::timeout(SILENCE, body.next()).await {
                Err(_) => return Ok(Ending::Broken("the stream fell silent".to_owned())),
                Ok(None) => return self.closed(&client).await,
                Ok(Some(Err(error))) => return Ok(Ending::Broken(error.to_string())),
                Ok(Some(Ok(piece))) => piece,
            };
            let frames = parser.push(&piece).map_err(|error| Failure::Other(error.into()))?;
            for frame in frames {
                if let Some(event) = self.accept(&frame)
                    && self.sender.send(News::Event(Box::new(event))).await.is_err()
                {
                    return Ok(Ending::Unwanted);
                }
            }
        }
    }

    /// The server closed the stream: because the sandbox has ended, or because it stops itself.
    async fn closed(&self, client: &Client) -> Outcome<Ending> {
        let state = client.sandbox(&self.sandbox_id).await?.state;
        if state.is_terminal() {
            return Ok(Ending::Complete(state));
        }
        Ok(Ending::Broken("the server closed the stream".to_owned()))
    }

    /// The event in a frame, unless it was given before or is not part of the log.
    fn accept(&mut self, frame: &Frame) -> Option<Event> {
        let event: Event = serde_json::from_str(&frame.data).ok()?;
        if event.seq <= self.last_seq {
            return None;
        }
        self.last_seq = event.seq;
        Some(event)
    }
}

/// Whether another attempt would get the same answer.
fn is_final(failure: &Failure) -> bool {
    match failure {
        Failure::Refused(problem) => problem.status < 500 && !matches!(problem.status, 408 | 429),
        Failure::Unreachable(_) => false,
        Failure::Usage(_) | Failure::Other(_) => true,
    }
}
