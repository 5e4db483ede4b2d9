//! The stand-in for a model: what it asks for follows from what the request says.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::ensure;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::model::{says, uses};
use crate::table::Delays;

/// Tool calls of one run.
pub(super) const CALLS: usize = 200;
/// Whoever hears this is done.
pub(super) const ENOUGH: &str = "that is enough";

/// What a run is for; its prompt tells the model.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wish {
    /// Many calls of a command that does nothing.
    Calls,
    /// Short commands for as long as nobody says that it is enough.
    Busy,
    /// Commands that take too long.
    Stuck,
}

impl Wish {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Calls => "measure calls",
            Self::Busy => "measure messages",
            Self::Stuck => "measure interrupts",
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::Calls => "true",
            Self::Busy => "sleep 0.05",
            Self::Stuck => "sleep 600",
        }
    }

    fn of(request: &str) -> Self {
        let wishes = [Self::Busy, Self::Stuck];
        wishes.into_iter().find(|wish| request.contains(wish.words())).unwrap_or(Self::Calls)
    }
}

/// Requests as they came.
type Asked = Arc<Mutex<Vec<(Instant, String)>>>;

#[derive(Debug)]
pub(super) struct Edge {
    url: String,
    asked: Asked,
    serving: JoinHandle<()>,
}

impl Edge {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let asked = Asked::default();
        let router = Router::new().route("/v1/messages", post(answer)).with_state(Arc::clone(&asked));
        let serving = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self { url, asked, serving })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The time from each request to the next, since this was last asked for.
    pub(super) fn intervals(&self) -> Delays {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner));
        let mut delays = Delays::default();
        for pair in asked.windows(2) {
            delays.push(pair[1].0 - pair[0].0);
        }
        delays
    }

    /// When the first request with these words came, which must come.
    pub(super) async fn first_with(&self, words: &str, patience: Duration) -> anyhow::Result<Instant> {
        let deadline = Instant::now() + patience;
        loop {
            let found = {
                let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
                asked.iter().find(|(_, request)| request.contains(words)).map(|(at, _)| *at)
            };
            if let Some(at) = found {
                return Ok(at);
            }
            ensure!(Instant::now() < deadline, "no request with {words:?} within {patience:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(State(asked): State<Asked>, body: Bytes) -> Response {
    let request = String::from_utf8_lossy(&body).into_owned();
    let (wish, calls) = (Wish::of(&request), request.matches("\"tool_use_id\"").count());
    let done = request.contains(ENOUGH) || matches!(wish, Wish::Calls) && calls >= CALLS;
    asked.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), request));
    if done {
        return says("done");
    }
    uses(&format!("toolu_{calls}"), &json!({"command": wish.command(), "timeout": 600_000}))
}
