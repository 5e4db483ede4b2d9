//! Writes an archive.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sunaba_git::ProjectLocks;
use sunaba_store::Store;
use sunaba_store::transfer::{Source, Sums, TABLES, TableSum, encode};
use sunaba_types::{BlobHash, Timestamp};
use tokio::sync::mpsc;

use crate::manifest::{FORMAT, NOTE, Sum, TableForm};
use crate::tape::Tape;
use crate::{Contents, Error, Manifest, Piece, Trailer, mirrors};

/// How entries that are no files of their own are marked.
const MODE: u32 = 0o600;
/// The setting that tells installations apart.
const INSTALLATION: &str = "installation_id";

/// What there is to keep.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The rows.
    pub store: Arc<dyn Store>,
    /// The directory of blobs.
    pub blobs: PathBuf,
    /// The directory of mirrors.
    pub mirrors: PathBuf,
    /// The locks of those who write to mirrors.
    pub locks: Arc<ProjectLocks>,
    /// This node.
    pub node_id: Option<String>,
    /// This program.
    pub version: String,
}

/// Writes everything into a channel. What breaks off has no trailer.
pub async fn write(
    parts: &Parts,
    contents: Contents,
    made_at: Timestamp,
    out: mpsc::Sender<Piece>,
) -> Result<(), Error> {
    let mut tape = Tape::new(out, u64::try_from(made_at.as_second()).unwrap_or_default());
    // Rows are of the moment before any file is looked at.
    let mut rows = match contents {
        Contents::Everything => Some(parts.store.read_whole().await?),
        Contents::FilesOnly => None,
    };
    let manifest = Manifest {
        format: FORMAT,
        version: parts.version.clone(),
        made_at,
        contents,
        installation_id: parts.store.find_setting(INSTALLATION).await?,
        node_id: parts.node_id.clone(),
        store: parts.store.kind().to_owned(),
        tables: TableForm::all(),
        note: NOTE.to_owned(),
    };
    tape.bytes("manifest.json", MODE, pretty(&manifest)).await?;
    let (mut tables, mut feed_head) = (Vec::new(), 0);
    if let Some(rows) = &mut rows {
        tables = write_tables(&mut tape, &mut **rows).await?;
        feed_head = rows.feed_head().await?;
    }
    drop(rows);
    let blobs = write_blobs(&mut tape, &parts.blobs).await?;
    let mirrors = mirrors::write(&mut tape, &parts.mirrors, &parts.locks).await?;
    let sha256 = sunaba_types::chain::hex(&tape.sum());
    let tables = tables.iter().map(Sum::from).collect();
    let trailer = Trailer { sha256, tables, feed_head, blobs, mirrors };
    tape.bytes("trailer.json", MODE, pretty(&trailer)).await?;
    tape.end().await
}

async fn write_tables(tape: &mut Tape, rows: &mut dyn Source) -> Result<Vec<TableSum>, Error> {
    let mut sums = Sums::default();
    for table in &TABLES {
        let (mut after, mut number) = (None, 0_u64);
        loop {
            let batch = rows.batch(table, after.as_deref()).await?;
            let Some(last) = batch.last() else { break };
            after = Some(table.key_of(last));
            number += 1;
            let mut text = String::new();
            for row in batch {
                let line = encode(&row);
                sums.add(table, &line);
                text.push_str(&line);
                text.push('\n');
            }
            tape.bytes(&format!("tables/{}/{number:08}.jsonl", table.name), MODE, text.into()).await?;
        }
    }
    Ok(sums.finish())
}

async fn write_blobs(tape: &mut Tape, root: &Path) -> Result<u64, Error> {
    let mut count = 0;
    for folder in listed(root).await? {
        for path in listed(&folder).await? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            // What is being received has another name.
            if BlobHash::parse(&name).is_none() {
                continue;
            }
            let size = match tokio::fs::metadata(&path).await {
                // Nobody had a right to it any more.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                metadata => metadata.map_err(Error::file("cannot read", &path))?.len(),
            };
            tape.file(&format!("blobs/{}/{name}", &name[..2]), MODE, &path, size).await?;
            count += 1;
        }
    }
    Ok(count)
}

/// What is in a directory, in order; nothing in one that is not there or is none.
async fn listed(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let mut entries = match tokio::fs::read_dir(dir).await {
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(Vec::new()),
        entries => entries.map_err(Error::file("cannot list", dir))?,
    };
    let mut paths = Vec::new();
    while let Some(entry) = entries.next_entry().await.map_err(Error::file("cannot list", dir))? {
        paths.push(entry.path());
    }
    paths.sort();
    Ok(paths)
}

fn pretty(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec_pretty(value).expect("names and numbers")
}
