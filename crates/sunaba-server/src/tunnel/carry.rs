//! Carries one tunnel's streams to the sandbox's doors.

use std::future::poll_fn;
use std::time::Duration;

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt as _, TokioAsyncReadCompatExt as _};
use tokio_util::task::TaskTracker;

use super::{Entered, SILENCE};
use crate::Doors;

/// More than the other end opens at once: one stream too many would end the whole connection.
const STREAMS_MAX: usize = 256;
/// What may wait unread over all streams of one tunnel.
const WINDOW_BYTES: usize = STREAMS_MAX * 256 * 1024;
/// How long a stream may take to say what it is for.
const FIRST_BYTE: Duration = Duration::from_secs(30);
/// How long streams may take to finish once the server stops.
const DRAIN: Duration = Duration::from_secs(8);
/// How long saying goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

type Stream = Compat<yamux::Stream>;

/// Serves a tunnel to its end.
pub(super) async fn carry(upgraded: Upgraded, doors: &Doors, entered: Entered) {
    let mut config = yamux::Config::default();
    config.set_max_num_streams(STREAMS_MAX).set_max_connection_receive_window(Some(WINDOW_BYTES));
    let socket = TokioIo::new(upgraded).compat();
    let mut connection = yamux::Connection::new(socket, config, yamux::Mode::Server);
    let streams = TaskTracker::new();
    let mut heard = Instant::now();
    tracing::info!(sandbox = %entered.id, "a tunnel is up");
    let ending = loop {
        let next = tokio::select! {
            next = poll_fn(|cx| connection.poll_next_inbound(cx)) => next,
            () = entered.stop.cancelled() => break "closed",
            () = entered.shutdown.cancelled() => {
                drain(&mut connection, &streams).await;
                break "the server stops";
            }
            () = sleep_until(heard + SILENCE) => break "silent",
        };
        match next {
            Some(Ok(stream)) => {
                heard = Instant::now();
                let (doors, id) = (doors.clone(), entered.id.clone());
                streams.spawn(async move { serve(stream.compat(), &doors, &id).await });
            }
            Some(Err(_)) | None => break "broken",
        }
    };
    let _ = timeout(GOODBYE, poll_fn(|cx| connection.poll_close(cx))).await;
    drop(connection);
    tracing::info!(sandbox = %entered.id, ending, "a tunnel is down");
    // Their other ends are gone; they find out at once.
    streams.close();
    let _ = timeout(DRAIN, streams.wait()).await;
}

/// Lets what is under way finish, and takes nothing new.
async fn drain(connection: &mut yamux::Connection<Compat<TokioIo<Upgraded>>>, streams: &TaskTracker) {
    streams.close();
    let deadline = Instant::now() + DRAIN;
    loop {
        tokio::select! {
            next = poll_fn(|cx| connection.poll_next_inbound(cx)) => match next {
                Some(Ok(stream)) => drop(stream),
                Some(Err(_)) | None => return,
            },
            () = streams.wait() => return,
            () = sleep_until(deadline) => return,
        }
    }
}

async fn serve(mut stream: Stream, doors: &Doors, id: &sunaba_types::SandboxId) {
    let mut kind = [0];
    if !matches!(timeout(FIRST_BYTE, stream.read_exact(&mut kind)).await, Ok(Ok(_))) {
        return;
    }
    match kind[0] {
        b'g' => doors.serve_gateway_stream(id, stream).await,
        b'e' => doors.serve_egress_stream(id, stream).await,
        b'p' => {
            let _ = timeout(FIRST_BYTE, async {
                stream.write_all(&kind).await?;
                stream.shutdown().await
            })
            .await;
        }
        // From a newer worker, or nonsense: dropping it says so.
        _ => {}
    }
}
