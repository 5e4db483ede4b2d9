//! Fits the parts to each other: what one crate asks for, given by another.

use std::io;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sunaba_gateway::ScriptSource;
use sunaba_server::{BlobFiles, LogSource, SourceError};
use sunaba_types::{BlobHash, Sandbox, SandboxId};

use super::providers::Providers;

/// Most output that is gone through to find its end, in bytes.
const OUTPUT_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// How much of it is read at once.
const OUTPUT_PIECE_BYTES: usize = 1024 * 1024;

/// How long a call waits for a node that has its script and is away: as long as the bridge waits for this one.
const HELD_FOR: Duration = Duration::from_secs(60 * 60);

/// Scripts are blobs.
#[derive(Debug)]
pub(super) struct BlobScripts(pub(super) BlobFiles);

#[async_trait]
impl ScriptSource for BlobScripts {
    async fn load(&self, hash: &BlobHash) -> io::Result<Vec<u8>> {
        self.0.read(hash, HELD_FOR).await?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The server's doors and tunnels, for the orchestrator.
#[derive(Debug, Clone)]
pub(super) struct ServerDoors {
    /// Of sandboxes on this host.
    pub(super) doors: sunaba_server::Doors,
    /// Of those on other machines.
    pub(super) tunnels: sunaba_server::Tunnels,
    /// Who was heard through either.
    pub(super) liveness: sunaba_server::Liveness,
}

#[async_trait]
impl sunaba_orchestrator::Doors for ServerDoors {
    async fn open(&self, id: &SandboxId, door_dir: &Path) -> io::Result<()> {
        self.doors.open(id, door_dir).await
    }

    async fn close(&self, id: &SandboxId) {
        self.tunnels.close(id);
        self.doors.close(id).await;
        self.liveness.forget(id);
    }

    fn has_tunnel(&self, id: &SandboxId) -> bool {
        self.tunnels.is_up(id)
    }

    fn signs(&self, id: &SandboxId) -> u64 {
        self.liveness.signs(id)
    }
}

/// Raw output comes from the provider.
#[derive(Debug)]
pub(super) struct ProviderLogs {
    /// What made the sandboxes.
    pub(super) providers: Providers,
}

#[async_trait]
impl LogSource for ProviderLogs {
    async fn raw_output(&self, sandbox: &Sandbox, max_bytes: u64) -> Result<Bytes, SourceError> {
        let provider = self.providers.get(&sandbox.provider).ok_or_else(|| {
            SourceError::Absent("this sandbox runs elsewhere; its output is not here".to_owned())
        })?;
        let keep = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        let mut kept: Vec<u8> = Vec::new();
        let mut offset = 0;
        while offset < OUTPUT_MAX_BYTES {
            let piece = match provider.output(&sandbox.id, offset, OUTPUT_PIECE_BYTES).await {
                Ok(piece) => piece,
                Err(sunaba_sandbox::Error::NotFound(_)) => {
                    return Err(SourceError::Absent("nothing was printed yet".to_owned()));
                }
                Err(error) => return Err(SourceError::Failed(Box::new(error))),
            };
            if piece.is_empty() {
                break;
            }
            offset += piece.len() as u64;
            kept.extend_from_slice(&piece);
            let excess = kept.len().saturating_sub(keep);
            kept.drain(..excess);
        }
        Ok(kept.into())
    }
}
