//! What a container wrote: kept by the daemon while it is there, by us once it is removed.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use bollard::query_parameters::LogsOptionsBuilder;
use futures::StreamExt as _;
use sunaba_types::SandboxId;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::engine::{Engine, failed};
use super::spec;
use crate::Error;

/// Between two pieces of output; the daemon has all of it at hand.
const PIECE: Duration = Duration::from_secs(30);

/// Reads from `offset`, at most `limit` bytes. The daemon counts lines and seconds, not bytes, so what comes
/// before is read and passed over.
pub(super) async fn read(
    engine: &Engine,
    id: &SandboxId,
    offset: u64,
    limit: usize,
) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut before = usize::try_from(offset).unwrap_or(usize::MAX);
    let docker = engine.docker().await?;
    let mut pieces = pin!(docker.logs(&spec::name(id), Some(everything())));
    while bytes.len() < limit {
        let Some(piece) = next(&mut pieces).await? else { break };
        let skipped = before.min(piece.len());
        before -= skipped;
        let rest = &piece[skipped..];
        bytes.extend_from_slice(&rest[..rest.len().min(limit - bytes.len())]);
    }
    Ok(bytes)
}

/// Copies all of it into a file; nothing is there until all of it is.
pub(super) async fn keep(engine: &Engine, id: &SandboxId, into: &Path) -> Result<(), Error> {
    let trouble = || Error::backend("keep the container's output");
    let temporary = into.with_extension("log.new");
    let mut file = tokio::fs::File::create(&temporary).await.map_err(trouble())?;
    let docker = engine.docker().await?;
    let mut pieces = pin!(docker.logs(&spec::name(id), Some(everything())));
    while let Some(piece) = next(&mut pieces).await? {
        file.write_all(&piece).await.map_err(trouble())?;
    }
    file.flush().await.map_err(trouble())?;
    tokio::fs::rename(&temporary, into).await.map_err(trouble())
}

fn everything() -> bollard::query_parameters::LogsOptions {
    LogsOptionsBuilder::new().stdout(true).stderr(true).tail("all").build()
}

async fn next(
    pieces: &mut (
             impl futures::Stream<Item = Result<bollard::container::LogOutput, bollard::errors::Error>> + Unpin
         ),
) -> Result<Option<bytes::Bytes>, Error> {
    match timeout(PIECE, pieces.next()).await {
        Ok(None) => Ok(None),
        Ok(Some(Ok(piece))) => Ok(Some(piece.into_bytes())),
        Ok(Some(Err(error))) => Err(failed("read the container's output")(error)),
        Err(_) => Err(Error::backend("read the container's output")(io::ErrorKind::TimedOut.into())),
    }
}
