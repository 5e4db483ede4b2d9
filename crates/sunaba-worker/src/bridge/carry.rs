//! Carries one connection.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};

use super::replay::Memory;
use super::way::{Line, Outward};

const BUFFER_BYTES: usize = 16 * 1024;
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Said to a client that was held in vain.
const fn gave_up(line: Line) -> &'static [u8] {
    match line {
        Line::Gateway => b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        Line::Egress => {
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 92\r\n\
              Retry-After: 30\r\nConnection: close\r\n\r\n\
              The way out of this sandbox is closed: its server is away. Try again in half a minute or so."
        }
    }
}

/// How a stretch of forwarding ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// Nobody waits for an answer any more.
    ClientGone,
    /// The server's side closed.
    ServerGone,
}

/// Carries a connection to its end.
pub(super) async fn carry(mut client: TcpStream, way: &impl Outward, line: Line, hold: Duration) {
    let _ = client.set_nodelay(true);
    let replay = Memory::of(line);
    // The server is asked for only once there is something to say: a connection that a client
    // opens ahead of time then outlives any number of servers.
    if !read_some(&mut client, &replay).await {
        return;
    }
    let mut trouble: Option<Trouble> = None;
    loop {
        let since = trouble.get_or_insert_with(|| Trouble::begin(hold));
        let server = tokio::select! {
            server = since.connect(way, line) => server,
            () = client_leaves(&mut client, &replay) => return,
        };
        let Some(server) = server else {
            let _ = client.write_all(gave_up(line)).await;
            return;
        };
        let mut answered = false;
        let end = exchange(&mut client, server, &replay, &mut answered).await;
        if end == End::ClientGone || replay.get().pending().is_none() {
            return;
        }
        if answered {
            trouble = None;
        }
    }
}

/// How long the server has been failing one request.
#[derive(Debug)]
struct Trouble {
    deadline: Instant,
    pause: Duration,
    tried: bool,
}

impl Trouble {
    fn begin(hold: Duration) -> Self {
        Self { deadline: Instant::now() + hold, pause: PAUSE_FIRST, tried: false }
    }

    /// Tries until the server is there; `None` when the time is up.
    async fn connect<W: Outward>(&mut self, way: &W, line: Line) -> Option<W::Stream> {
        loop {
            if self.tried {
                if Instant::now() + self.pause >= self.deadline {
                    return None;
                }
                sleep(self.pause).await;
                self.pause = (self.pause * 2).min(PAUSE_MAX);
            }
            self.tried = true;
            if let Ok(Ok(server)) = timeout_at(self.deadline, way.open(line)).await {
                return Some(server);
            }
        }
    }
}

/// Reads what the client sends into the memory; `false` when it is gone.
async fn read_some(client: &mut TcpStream, replay: &Memory) -> bool {
    let mut buffer = vec![0; BUFFER_BYTES];
    match client.read(&mut buffer).await {
        Ok(length @ 1..) => {
            replay.get().sent(&buffer[..length]);
            true
        }
        Ok(0) | Err(_) => false,
    }
}

/// While there is no server: goes on reading the request, and returns when the client leaves.
async fn client_leaves(client: &mut TcpStream, replay: &Memory) {
    while replay.get().room() >= BUFFER_BYTES {
        if !read_some(client, replay).await {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Sends what is remembered and forwards both ways until one side ends.
async fn exchange(
    client: &mut TcpStream,
    server: impl AsyncRead + AsyncWrite,
    replay: &Memory,
    answered: &mut bool,
) -> End {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let again = replay.get().unsent().to_vec();
    let up = async {
        // A write that fails is not the end: an answer may be on its way. Reading will tell.
        if forward(&mut to_server, &again).await.is_err() {
            std::future::pending::<()>().await;
        }
        drop(again);
        send_up(&mut from_client, &mut to_server, replay).await;
    };
    let down = send_down(&mut from_server, &mut to_client, replay, answered);
    // In this order, so that what the client has already sent is remembered before the server's
    // end is seen.
    tokio::select! {
        biased;
        () = up => End::ClientGone,
        end = down => end,
    }
}

/// Returns when the client's connection breaks.
async fn send_up(
    from_client: &mut (impl AsyncRead + Unpin),
    to_server: &mut (impl AsyncWrite + Unpin),
    replay: &Memory,
) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match from_client.read(&mut buffer).await {
            Ok(0) => {
                replay.get().client_done();
                let _ = to_server.shutdown().await;
                return std::future::pending().await;
            }
            Ok(length) => {
                replay.get().sent(&buffer[..length]);
                if forward(to_server, &buffer[..length]).await.is_err() {
                    return std::future::pending().await;
                }
            }
            Err(_) => return,
        }
    }
}

async fn send_down(
    from_server: &mut (impl AsyncRead + Unpin),
    to_client: &mut (impl AsyncWrite + Unpin),
    replay: &Memory,
    answered: &mut bool,
) -> End {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match from_server.read(&mut buffer).await {
            Ok(0) | Err(_) => return End::ServerGone,
            Ok(length) => {
                *answered = true;
                replay.get().answered();
                if forward(to_client, &buffer[..length]).await.is_err() {
                    return End::ClientGone;
                }
            }
        }
    }
}

async fn forward(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_as_long_as_they_say() {
        for line in [Line::Gateway, Line::Egress] {
            let text = std::str::from_utf8(gave_up(line)).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{text}");
        }
    }
}
