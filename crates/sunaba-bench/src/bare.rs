//! Yardsticks: what an HTTP handler that only parses the JSON answers here, and what plain sockets take to
//! reach many readers, both with the same clients as the real thing.

use std::time::Instant;

use anyhow::Context;
use axum::Json;
use axum::routing::post;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::crowd::{self, Client};
use crate::ingest::{CONNECTIONS, SECONDS};

pub(crate) async fn requests_per_second() -> anyhow::Result<f64> {
    let app = axum::Router::new().route("/", post(|Json(_): Json<serde_json::Value>| async { "{}" }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let authority = listener.local_addr()?.to_string();
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let client = |_| Client {
        authority: authority.clone(),
        token: "none".to_owned(),
        path: "/".to_owned(),
        batch: None,
    };
    let (rate, _) = crowd::run((0..CONNECTIONS).map(client).collect(), SECONDS).await?;
    serving.abort();
    Ok(rate)
}

/// Writes the same bytes to every connection whenever the number changes: a fan-out with nothing in it.
#[derive(Debug)]
pub(crate) struct PlainFanout {
    pub(crate) authority: String,
    tick: watch::Sender<u64>,
    serving: tokio::task::JoinHandle<()>,
}

impl PlainFanout {
    /// Serves frames of `size` bytes, as a WebSocket server would write them.
    pub(crate) async fn start(size: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let authority = listener.local_addr()?.to_string();
        let tick = watch::Sender::new(0);
        let ticks = tick.subscribe();
        let mut frame = vec![0x81, 126];
        frame.extend(size.to_be_bytes());
        frame.resize(frame.len() + usize::from(size), b'x');
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A reader that goes away ends its own task.
                tokio::spawn(write_ticks(stream, frame.clone(), ticks.clone()));
            }
        });
        Ok(Self { authority, tick, serving })
    }

    /// Sends the next frame to everyone and says when it was let go.
    pub(crate) fn tick(&self) -> Instant {
        self.tick.send_modify(|number| *number += 1);
        Instant::now()
    }
}

impl Drop for PlainFanout {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn write_ticks(
    mut stream: TcpStream,
    frame: Vec<u8>,
    mut ticks: watch::Receiver<u64>,
) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = [0; 1024];
    let read = stream.read(&mut request).await?;
    request.get(..read).context("a request")?;
    // Before the reader is let in: no tick may fall between its welcome and the first look.
    let mut written = *ticks.borrow_and_update();
    stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").await?;
    loop {
        ticks.changed().await?;
        // A task that comes late finds several ticks in one change and owes a frame for each.
        let now = *ticks.borrow_and_update();
        for _ in written..now {
            stream.write_all(&frame).await?;
        }
        written = now;
    }
}
