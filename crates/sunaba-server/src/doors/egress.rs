//! The way out: who takes a place, who waits for one, and what is said to those who get none.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::{BoxedStream, Passage, StreamHandler};
use crate::counted::counted;

/// Most egress connections of one sandbox that wait for a place; who comes after them waits to be taken at all.
const WAITING_MOST: usize = 16;
/// How long one that is turned away may take to read why.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long to wait after accepting failed (out of file descriptors, for example).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

impl Passage {
    /// Serves an egress stream once it has a place; tells it why there is none otherwise.
    pub(super) async fn admit(
        &self,
        handler: &Arc<dyn StreamHandler>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) {
        match self.place(&self.egress_places).await {
            Some(place) => self.egress(handler, Box::new(counted(stream, place))).await,
            None if self.stop.is_cancelled() => {}
            None => turn_away(stream, self.egress_most).await,
        }
    }

    /// Serves one stream until it is over or the door closes.
    async fn egress(&self, handler: &Arc<dyn StreamHandler>, stream: BoxedStream) {
        let serving = async {
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = handler.handle(self.door.sandbox_id.clone(), stream) => {}
            }
        };
        self.streams.track_future(serving).await;
    }
}

/// Says in the words of a proxy that the sandbox has all its connections in use.
async fn turn_away(mut stream: impl AsyncRead + AsyncWrite + Unpin, most: usize) {
    let words = format!(
        "Sunaba refused egress: this sandbox already has {most} connections to the outside, the most it may have \
         at once. Close some, or do less at the same time, and try again.\n"
    );
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nRetry-After: 5\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{words}",
        words.len()
    );
    let saying = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Until it hangs up: what is closed with something unread may take its last words with it.
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    let _ = timeout(FAREWELL, saying).await;
}

/// Takes egress connections until the door closes. Past the sandbox's places a few wait, and are turned away in
/// words when none becomes free; who comes after them waits in the queue.
pub(super) async fn take(listener: &UnixListener, passage: &Arc<Passage>, handler: &Arc<dyn StreamHandler>) {
    let connections = TaskTracker::new();
    let taken = Arc::new(Semaphore::new(passage.egress_most + WAITING_MOST));
    loop {
        let next = async {
            let held = Arc::clone(&taken).acquire_owned().await.map_err(io::Error::other)?;
            let (stream, _) = listener.accept().await?;
            Ok::<_, io::Error>((stream, held))
        };
        let accepted = tokio::select! {
            () = passage.stop.cancelled() => break,
            accepted = next => accepted,
        };
        match accepted {
            Ok((stream, held)) => {
                let (passage, handler) = (Arc::clone(passage), Arc::clone(handler));
                connections.spawn(async move {
                    passage.admit(&handler, stream).await;
                    drop(held);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "could not take an egress connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
