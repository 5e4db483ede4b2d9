//! Serves connections, and stops in an orderly way.
//!
//! Stopping: no new connection is taken; idle ones are closed; requests in
//! work get [`DRAIN`] to finish (live streams and long polls end by themselves,
//! because they watch the same shutdown token); then what is left is dropped.
//!
//! A listener takes only so many connections at once. Past that it takes none until one is closed: who
//! comes waits in the kernel's queue, and nobody else's listener notices.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::App;
use crate::alarm::Alarm;
use crate::counted::counted;
use crate::descriptors;
use crate::layers::gate::Door;

/// How long requests in work may take once the server stops. With what follows it stays below ten seconds.
const DRAIN: Duration = Duration::from_secs(8);
/// How long a connection may take to send a request's head, and be idle between requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(90);
/// How long to wait after accepting failed (out of file descriptors, for example).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves on a TCP listener until `shutdown`, then drains.
pub async fn serve(listener: TcpListener, app: App, shutdown: CancellationToken) -> io::Result<()> {
    accept_loop(&listener, &app, None, descriptors::tcp_connections(), &shutdown).await;
    Ok(())
}

/// Something that takes connections.
pub(crate) trait Accept {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// Waits for the next one.
    fn accept_one(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Accept for TcpListener {
    type Stream = TcpStream;
    async fn accept_one(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept().await?;
        // Frames and answers are small and must not wait for more.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Accept for UnixListener {
    type Stream = UnixStream;
    async fn accept_one(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

/// Takes connections until `stop`, at most `most` at once, then waits for those that are open.
pub(crate) async fn accept_loop<L: Accept>(
    listener: &L,
    app: &App,
    door: Option<&Door>,
    most: usize,
    stop: &CancellationToken,
) {
    let places = Arc::new(Semaphore::new(most));
    let connections = TaskTracker::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>(counted(listener.accept_one().await?, place))
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = next => accepted,
        };
        match accepted {
            Ok(stream) => {
                connections.spawn(connection(stream, app.clone(), door.cloned(), stop.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "could not take a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections were still open when the server stopped");
    }
}

pub(crate) async fn connection<S>(stream: S, app: App, door: Option<Door>, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        let app = app.clone();
        if let Some(door) = &door {
            request.extensions_mut().insert(door.clone());
        }
        async move { Ok::<_, Infallible>(app.answer(request.map(Body::new)).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(Alarm::new(HEAD_TIMEOUT))
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = stop.cancelled() => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(DRAIN, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        // Clients leave in the middle all the time.
        tracing::trace!(%error, "a connection ended early");
    }
}
