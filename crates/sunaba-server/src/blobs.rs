//! Blobs: large content kept as files under its hash.
//!
//! Owns the directory `DIR/blobs/ab/<hash>`. A file is written under another
//! name, synced and renamed, so a hash is either absent or whole. Who may read
//! a blob is not decided here; a file that nobody has a right to is removed again
//! by whoever stored it.

mod elsewhere;
mod sweep;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use sha2::{Digest, Sha256};
use sunaba_nodes::Nodes;
use sunaba_types::BlobHash;
use sunaba_types::chain::hex;
use sunaba_types::limits::BLOB_MAX_BYTES;
use tokio::fs;
use tokio::io::AsyncWriteExt;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};

use self::elsewhere::Elsewhere;
use crate::room::Disk;

/// How the name of a file begins that is not yet a blob.
const UNFINISHED: &str = ".new-";

/// Why a blob was not stored.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// Over [`BLOB_MAX_BYTES`].
    #[error("a blob has at most {BLOB_MAX_BYTES} bytes")]
    TooLarge,
    /// The sender stopped in between or was too slow.
    #[error("the content did not arrive whole")]
    Interrupted,
    /// It could not be written.
    #[error("the blob could not be written")]
    Io(#[from] io::Error),
}

/// The directory of blobs.
#[derive(Debug, Clone)]
pub struct BlobFiles {
    root: PathBuf,
    /// Other nodes, which may have what is not here.
    elsewhere: Option<Elsewhere>,
    /// Shared from before a file has its name until its owner is recorded; alone while one is removed.
    owners: Arc<RwLock<()>>,
}

/// A blob whose owner is not recorded yet.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) hash: BlobHash,
    pub(crate) size_bytes: u64,
    /// Whether there was no such file before.
    pub(crate) is_new: bool,
    /// While this is held the file stays. Held until the owner is recorded.
    pub(crate) stays: OwnedRwLockReadGuard<()>,
}

impl BlobFiles {
    /// Blobs live in `root`, which is made when the first is stored.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), elsewhere: None, owners: Arc::default() }
    }

    /// The same, with other nodes that are asked for what is not here, as long as so much of the disk is free.
    #[must_use]
    pub fn with_nodes(mut self, nodes: Nodes, disk_free_bytes: u64) -> Self {
        self.elsewhere = Some(Elsewhere::new(nodes, Disk::new(self.root.clone(), disk_free_bytes)));
        self
    }

    /// The directory that they are in.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Stores bytes that are already here.
    pub async fn put(&self, bytes: Bytes) -> Result<(BlobHash, u64), BlobError> {
        let once = futures::stream::once(async move { Ok::<_, std::convert::Infallible>(bytes) });
        self.put_stream(Box::pin(once), Duration::from_secs(60)).await
    }

    /// Stores a stream; `pause` bounds the wait for each piece.
    pub async fn put_stream<S, E>(&self, pieces: S, pause: Duration) -> Result<(BlobHash, u64), BlobError>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
    {
        let fresh = self.put_fresh(pieces, pause).await?;
        Ok((fresh.hash, fresh.size_bytes))
    }

    /// The same for a blob whose owner is recorded next.
    pub(crate) async fn put_fresh<S, E>(&self, pieces: S, pause: Duration) -> Result<Fresh, BlobError>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
    {
        let written = self.write_unfinished(pieces, pause).await?;
        let (is_new, stays) = self.give_name(&written).await?;
        Ok(Fresh { hash: written.hash, size_bytes: written.size_bytes, is_new, stays })
    }

    /// Writes a stream to a file that is not yet a blob.
    async fn write_unfinished<S, E>(&self, mut pieces: S, pause: Duration) -> Result<Written, BlobError>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
    {
        fs::create_dir_all(&self.root).await?;
        let file = Unfinished(self.root.join(format!("{UNFINISHED}{}", uuid::Uuid::now_v7().simple())));
        let mut opened = fs::File::create(&file.0).await?;
        let (mut hasher, mut size_bytes) = (Sha256::new(), 0u64);
        loop {
            let Ok(next) = tokio::time::timeout(pause, pieces.next()).await else {
                return Err(BlobError::Interrupted);
            };
            let Some(piece) = next else { break };
            let piece = piece.map_err(|_| BlobError::Interrupted)?;
            size_bytes += piece.len() as u64;
            if size_bytes > BLOB_MAX_BYTES as u64 {
                return Err(BlobError::TooLarge);
            }
            hasher.update(&piece);
            opened.write_all(&piece).await?;
        }
        opened.sync_all().await?;
        let digest: [u8; 32] = hasher.finalize().into();
        let hash = BlobHash::parse(&hex(&digest)).expect("hex of a SHA-256 is a blob hash");
        Ok(Written { file, hash, size_bytes })
    }

    /// Makes a blob of what was written. Whether there was no such file before, and what keeps it there.
    async fn give_name(&self, written: &Written) -> io::Result<(bool, OwnedRwLockReadGuard<()>)> {
        let path = self.path(&written.hash);
        let folder = path.parent().expect("a blob has a folder").to_owned();
        match fs::create_dir(&folder).await {
            // A folder that is not durable itself makes nothing in it durable.
            Ok(()) => sync_folder(&self.root).await?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let stays = Arc::clone(&self.owners).read_owned().await;
        let is_new = !fs::try_exists(&path).await?;
        fs::rename(&written.file.0, &path).await?;
        sync_folder(&folder).await?;
        Ok((is_new, stays))
    }

    /// Removes a blob if nobody owns it, as `is_owned` tells while nobody can begin to. Whether it is gone.
    pub(crate) async fn remove_unless<E>(
        &self,
        hash: &BlobHash,
        is_owned: impl Future<Output = Result<bool, E>>,
    ) -> bool {
        let _alone = self.owners.write().await;
        // Unknown owners are owners.
        if is_owned.await.unwrap_or(true) {
            return false;
        }
        match fs::remove_file(self.path(hash)).await {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Removes what an earlier process began to write and did not finish. Only before anything is stored.
    pub(crate) fn remove_unfinished(&self) {
        let Ok(entries) = std::fs::read_dir(&self.root) else { return };
        for entry in entries.flatten() {
            let unfinished = entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes());
            if unfinished && let Err(error) = std::fs::remove_file(entry.path()) {
                tracing::warn!(%error, "an unfinished blob could not be removed");
            }
        }
    }

    /// The bytes of a blob; `None` if no node has it. Waits so long for a node that may have it and is away.
    pub async fn read(&self, hash: &BlobHash, patience: Duration) -> io::Result<Option<Vec<u8>>> {
        match self.read_here(hash).await? {
            None if self.bring(hash, patience).await? => self.read_here(hash).await,
            read => Ok(read),
        }
    }

    async fn bring(&self, hash: &BlobHash, patience: Duration) -> io::Result<bool> {
        match &self.elsewhere {
            Some(elsewhere) => elsewhere.bring(self, hash, patience).await,
            None => Ok(false),
        }
    }

    /// The bytes of a blob; `None` if it is not on this node.
    async fn read_here(&self, hash: &BlobHash) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path(hash)).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// An open file and its size; `None` if no node has it. Fails while a node that may have it is away.
    pub async fn open(&self, hash: &BlobHash) -> io::Result<Option<(fs::File, u64)>> {
        match self.open_here(hash).await? {
            None if self.bring(hash, Duration::ZERO).await? => self.open_here(hash).await,
            opened => Ok(opened),
        }
    }

    /// The same; `None` if it is not on this node.
    pub(crate) async fn open_here(&self, hash: &BlobHash) -> io::Result<Option<(fs::File, u64)>> {
        match fs::File::open(self.path(hash)).await {
            Ok(file) => {
                let size = file.metadata().await?.len();
                Ok(Some((file, size)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where a blob is, or would be.
    pub fn path(&self, hash: &BlobHash) -> PathBuf {
        self.root.join(&hash.as_str()[..2]).join(hash.as_str())
    }
}

/// Makes the rename itself durable.
async fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder).await?.sync_all().await
}

/// What was written and has no name yet.
#[derive(Debug)]
struct Written {
    file: Unfinished,
    hash: BlobHash,
    size_bytes: u64,
}

/// A file that is removed unless it was renamed.
#[derive(Debug)]
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename there is nothing under this name, and that is as wanted.
        let _ = std::fs::remove_file(&self.0);
    }
}
