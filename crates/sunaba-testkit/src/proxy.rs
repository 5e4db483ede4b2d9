//! A piece of network between two programs, which can be cut, held or made slow.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What becomes of connections and of what is sent over them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Every piece goes on, this much later.
    Open(Duration),
    /// Connections stay and nothing goes on, as when packets are dropped.
    Held,
    /// Connections end and no new one is taken.
    Cut,
}

/// Listens on a loopback port and carries to one address; ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    target: Arc<OnceLock<SocketAddr>>,
    line: watch::Sender<Line>,
    _end: DropGuard,
}

impl Proxy {
    /// A proxy before `target`, open.
    pub async fn start(target: SocketAddr) -> Self {
        let proxy = Self::start_without_target().await;
        proxy.lead_to(target);
        proxy
    }

    /// A proxy before something that wants to know the proxy's address before it has one itself. Until
    /// [`Self::lead_to`] every connection is closed at once.
    pub async fn start_without_target() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (line, seen) = watch::channel(Line::Open(Duration::ZERO));
        let target = Arc::default();
        let end = CancellationToken::new();
        let (ended, known) = (end.clone(), Arc::clone(&target));
        tokio::spawn(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = take(listener, &known, seen) => {}
            }
        });
        Self { address, target, line, _end: end.drop_guard() }
    }

    /// Where it carries to from now on; the first word counts.
    pub fn lead_to(&self, target: SocketAddr) {
        let _ = self.target.set(target);
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Carries everything at once, also what was held.
    pub fn forward(&self) {
        self.line.send_replace(Line::Open(Duration::ZERO));
    }

    /// Carries everything, later.
    pub fn delay(&self, by: Duration) {
        self.line.send_replace(Line::Open(by));
    }

    /// Keeps every connection and carries nothing.
    pub fn hold(&self) {
        self.line.send_replace(Line::Held);
    }

    /// Ends every connection, with what was under way, and takes no new one.
    pub fn cut(&self) {
        self.line.send_replace(Line::Cut);
    }
}

async fn take(listener: TcpListener, target: &OnceLock<SocketAddr>, line: watch::Receiver<Line>) {
    // They end with the set, so with the proxy.
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        if let Some(target) = target.get()
            && *line.borrow() != Line::Cut
        {
            connections.spawn(carry(client, *target, line.clone()));
        }
    }
}

/// Carries one connection until an end closes it or the line is cut.
async fn carry(client: TcpStream, target: SocketAddr, mut line: watch::Receiver<Line>) {
    let (there, back) = (line.clone(), line.clone());
    let both = async {
        let Ok(server) = TcpStream::connect(target).await else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        tokio::select! {
            () = pump(from_client, to_server, there) => {}
            () = pump(from_server, to_client, back) => {}
        }
    };
    tokio::select! {
        () = both => {}
        _ = line.wait_for(|line| *line == Line::Cut) => {}
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut line: watch::Receiver<Line>) {
    let mut piece = vec![0; 1 << 16];
    loop {
        let Ok(length @ 1..) = from.read(&mut piece).await else { return };
        let open = line.wait_for(|line| matches!(line, Line::Open(_))).await.map(|line| *line);
        let Ok(Line::Open(delay)) = open else { return };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::within;

    /// Sends everything back.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    async fn answer(stream: &mut TcpStream) -> std::io::Result<u8> {
        within("an answer", stream.read_u8()).await
    }

    #[tokio::test]
    async fn what_is_held_arrives_later_and_what_is_cut_never() {
        let proxy = Proxy::start(echo().await).await;
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        stream.write_u8(1).await.unwrap();
        assert_eq!(answer(&mut stream).await.unwrap(), 1);

        proxy.hold();
        stream.write_u8(2).await.unwrap();
        let early = tokio::time::timeout(Duration::from_millis(100), stream.read_u8()).await;
        assert!(early.is_err(), "held");
        proxy.forward();
        assert_eq!(answer(&mut stream).await.unwrap(), 2);

        proxy.delay(Duration::from_millis(60));
        let began = std::time::Instant::now();
        stream.write_u8(3).await.unwrap();
        assert_eq!(answer(&mut stream).await.unwrap(), 3);
        assert!(began.elapsed() >= Duration::from_millis(120), "there and back");

        proxy.cut();
        assert!(answer(&mut stream).await.is_err());
        let mut refused = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(answer(&mut refused).await.is_err());
        proxy.forward();
        let mut again = TcpStream::connect(proxy.address()).await.unwrap();
        again.write_u8(4).await.unwrap();
        assert_eq!(answer(&mut again).await.unwrap(), 4);
        drop(proxy);
        assert!(answer(&mut again).await.is_err(), "it ends with its handle");
    }

    #[tokio::test]
    async fn nobody_is_taken_before_it_is_known_where_to() {
        let proxy = Proxy::start_without_target().await;
        let mut early = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(answer(&mut early).await.is_err());
        proxy.lead_to(echo().await);
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        stream.write_u8(1).await.unwrap();
        assert_eq!(answer(&mut stream).await.unwrap(), 1);
    }
}
