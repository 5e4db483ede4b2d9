//! Takes a whole request body into an unnamed file, so that a slow sender holds no lock and no memory.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use axum::body::Body;
use flate2::read::GzDecoder;
use futures::StreamExt;
use http::{HeaderMap, header};
use tokio::io::AsyncWriteExt;

/// How long a sender may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// Why a body was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum SpoolError {
    #[error("the request is larger than {0} bytes")]
    TooLarge(u64),
    #[error("the request has a content encoding that is not served")]
    Encoding,
    #[error("the request did not arrive within {} s", PATIENCE.as_secs())]
    Slow,
    #[error("{0}")]
    NoRoom(String),
    #[error("the request could not be read: {0}")]
    Io(#[from] io::Error),
}

/// How many bytes arrive between two questions whether there is room.
const ASK_EVERY_BYTES: u64 = 4 * 1024 * 1024;

/// Takes a body, unpacked if it was packed, of at most `max` bytes either way, while there is room.
pub(super) async fn take(
    dir: &Path,
    headers: &HeaderMap,
    body: Body,
    max: u64,
    room: impl Fn() -> Result<(), String>,
) -> Result<File, SpoolError> {
    let packed = match headers.get(header::CONTENT_ENCODING).map(http::HeaderValue::as_bytes) {
        None | Some(b"identity") => false,
        Some(b"gzip" | b"x-gzip") => true,
        Some(_) => return Err(SpoolError::Encoding),
    };
    let taken = tokio::time::timeout(PATIENCE, store(dir, body, max, &room)).await;
    let file = taken.map_err(|_| SpoolError::Slow)??;
    if !packed {
        return Ok(file);
    }
    room().map_err(SpoolError::NoRoom)?;
    let target = tempfile::tempfile_in(dir)?;
    let work = tokio::task::spawn_blocking(move || unpack(file, target, max));
    work.await.map_err(io::Error::other)?
}

async fn store(
    dir: &Path,
    body: Body,
    max: u64,
    room: impl Fn() -> Result<(), String>,
) -> Result<File, SpoolError> {
    let mut file = tokio::fs::File::from_std(tempfile::tempfile_in(dir)?);
    let mut pieces = body.into_data_stream();
    let (mut size, mut ask_at) = (0u64, 0);
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(io::Error::other)?;
        size = size.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        if size > max {
            return Err(SpoolError::TooLarge(max));
        }
        if size >= ask_at {
            room().map_err(SpoolError::NoRoom)?;
            ask_at = size + ASK_EVERY_BYTES;
        }
        file.write_all(&piece).await?;
    }
    file.flush().await?;
    let mut file = file.into_std().await;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

fn unpack(packed: File, mut target: File, max: u64) -> Result<File, SpoolError> {
    let mut unpacked = GzDecoder::new(packed).take(max + 1);
    if io::copy(&mut unpacked, &mut target)? > max {
        return Err(SpoolError::TooLarge(max));
    }
    target.flush()?;
    target.seek(SeekFrom::Start(0))?;
    Ok(target)
}
