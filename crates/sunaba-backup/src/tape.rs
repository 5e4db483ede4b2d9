//! The archive as it goes out: entries of a tar file, piece by piece, and the sum of all.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use sunaba_types::chain::Hash;
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;

use crate::{Error, Piece};

/// How long whoever takes the archive may pause.
const PATIENCE: Duration = Duration::from_secs(120);
/// What is read of a file at once.
const PIECE_BYTES: usize = 64 * 1024;
/// What a tar file is made of.
const BLOCK: usize = 512;

/// Where entries are written to.
pub(crate) struct Tape {
    out: mpsc::Sender<Piece>,
    hasher: Sha256,
    made_at_seconds: u64,
}

impl Tape {
    pub(crate) fn new(out: mpsc::Sender<Piece>, made_at_seconds: u64) -> Self {
        Self { out, hasher: Sha256::new(), made_at_seconds }
    }

    /// The sum of everything so far.
    pub(crate) fn sum(&self) -> Hash {
        self.hasher.clone().finalize().into()
    }

    /// Writes an entry whose content is here.
    pub(crate) async fn bytes(&mut self, path: &str, mode: u32, content: Vec<u8>) -> Result<(), Error> {
        let size = content.len();
        let head = self.head(path, mode, size as u64)?;
        self.send(head.into()).await?;
        self.send(content.into()).await?;
        self.pad(size as u64).await
    }

    /// Writes an entry from the first `size` bytes of a file, which must have them.
    pub(crate) async fn file(&mut self, path: &str, mode: u32, from: &Path, size: u64) -> Result<(), Error> {
        let head = self.head(path, mode, size)?;
        self.send(head.into()).await?;
        let opened = tokio::fs::File::open(from).await.map_err(Error::file("cannot read", from))?;
        let (mut opened, mut left) = (opened.take(size), size);
        while left > 0 {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            let mut bounded = (&mut opened).take(PIECE_BYTES as u64);
            let read = bounded.read_to_end(&mut piece).await.map_err(Error::file("cannot read", from))?;
            if read == 0 {
                return Err(Error::Unusable(format!("{} became shorter", from.display())));
            }
            left -= read as u64;
            self.send(piece.into()).await?;
        }
        self.pad(size).await
    }

    /// Ends the archive.
    pub(crate) async fn end(mut self) -> Result<(), Error> {
        self.send(vec![0; 2 * BLOCK].into()).await
    }

    /// The blocks before an entry's content, also for a path that is too long for one.
    fn head(&self, path: &str, mode: u32, size: u64) -> Result<Vec<u8>, Error> {
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(mode);
        header.set_mtime(self.made_at_seconds);
        header.set_entry_type(tar::EntryType::Regular);
        let mut builder = tar::Builder::new(Vec::new());
        let failed = Error::file("cannot name", Path::new(path));
        builder.append_data(&mut header, path, std::io::empty()).map_err(failed)?;
        let length = builder.get_ref().len();
        let mut head = builder.into_inner().map_err(Error::file("cannot name", Path::new(path)))?;
        head.truncate(length);
        Ok(head)
    }

    async fn pad(&mut self, size: u64) -> Result<(), Error> {
        let over = usize::try_from(size % BLOCK as u64).unwrap_or_default();
        if over == 0 { Ok(()) } else { self.send(vec![0; BLOCK - over].into()).await }
    }

    async fn send(&mut self, piece: Bytes) -> Result<(), Error> {
        self.hasher.update(&piece);
        let sending = tokio::time::timeout(PATIENCE, self.out.send(Ok(piece)));
        sending.await.map_err(|_| Error::Gone)?.map_err(|_| Error::Gone)
    }
}
