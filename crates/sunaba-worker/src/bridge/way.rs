//! How the bridge reaches the server.

use std::io;
use std::path::PathBuf;

use sunaba_types::shim::EGRESS_SOCKET;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

/// Which of the server's two doors a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// The gateway and the worker's routes.
    Gateway,
    /// The egress proxy.
    Egress,
}

/// A way to the server.
pub trait Outward: Send + Sync + 'static {
    /// What a connection is.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Opens a new connection; the bridge tries again for as long as it holds the client.
    fn open(&self, line: Line) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// The server's Unix sockets, in a directory that is bound in.
#[derive(Debug, Clone)]
pub struct Sockets {
    gateway: PathBuf,
    egress: PathBuf,
}

impl Sockets {
    /// The gateway's socket; the egress proxy's is beside it.
    pub fn beside(gateway: PathBuf) -> Self {
        let egress = gateway.with_file_name(EGRESS_SOCKET);
        Self { gateway, egress }
    }
}

impl Outward for Sockets {
    type Stream = UnixStream;

    async fn open(&self, line: Line) -> io::Result<UnixStream> {
        match line {
            Line::Gateway => UnixStream::connect(&self.gateway).await,
            Line::Egress => UnixStream::connect(&self.egress).await,
        }
    }
}
