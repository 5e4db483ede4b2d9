//! Restores an archive that was found to be whole.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest as _, Sha256};
use sunaba_store::transfer::{Row, Sums, Table, Target, Verified, chains, decode};
use sunaba_types::chain::hex;
use tokio::sync::mpsc;

use crate::{Backup, Error};

/// How many batches of rows wait to be written.
const WAITING: usize = 2;
/// What every mirror has, also without a file in it.
const MIRROR_DIRS: [&str; 3] = ["refs/heads", "objects/info", "objects/pack"];

/// Rows of one table.
type Batch = (&'static Table, Vec<Row>);

/// Restores files into a directory and, if the archive has them, rows into a store; checks every row, every
/// blob and every chain. The archive has been [inspected](crate::inspect).
pub async fn restore(
    archive: &Path,
    backup: &Backup,
    dir: &Path,
    target: Option<&mut dyn Target>,
) -> Result<Option<Verified>, Error> {
    let (sender, mut batches) = mpsc::channel::<Batch>(WAITING);
    let (from, to) = (archive.to_owned(), dir.to_owned());
    let unpacking = move || tokio::task::spawn_blocking(move || unpack(&from, &to, &sender));
    let Some(target) = target else {
        batches.close();
        unpacked(unpacking()).await?;
        return Ok(None);
    };
    if target.begin(&backup.trailer.sha256).await?.is_some() {
        let why = "a restore into this database broke off before; drop it, make it anew and begin again";
        return Err(Error::Unusable(why.to_owned()));
    }
    let unpacking = unpacking();
    while let Some((table, rows)) = batches.recv().await {
        target.write(table, rows).await?;
    }
    unpacked(unpacking).await?;
    target.settle(backup.trailer.feed_head).await?;
    let store = target.open().await?;
    let verified = check(backup, &*store).await;
    store.close().await;
    let verified = verified?;
    target.finish().await?;
    Ok(Some(verified))
}

async fn check(backup: &Backup, store: &dyn sunaba_store::Store) -> Result<Verified, Error> {
    let mut written = store.read_whole().await?;
    let tables = Sums::of(&mut *written).await?;
    backup.trailer.check(&tables)?;
    let (sandboxes, events) = chains(store, &mut *written).await?;
    if events != backup.trailer.rows("events") || store.feed_head().await? != backup.trailer.feed_head {
        return Err(Error::Unusable("the logs or the feed were not restored as they were".to_owned()));
    }
    Ok(Verified { tables, sandboxes, events })
}

async fn unpacked(unpacking: tokio::task::JoinHandle<Result<(), Error>>) -> Result<(), Error> {
    unpacking.await.map_err(|error| Error::Unusable(error.to_string()))?
}

/// Puts files where they belong and hands over rows, in the archive's order.
fn unpack(archive: &Path, dir: &Path, rows: &mpsc::Sender<Batch>) -> Result<(), Error> {
    let file = File::open(archive).map_err(Error::file("cannot read", archive))?;
    let mut entries = tar::Archive::new(BufReader::with_capacity(256 * 1024, file));
    for entry in entries.entries().map_err(Error::file("cannot read", archive))? {
        let mut entry = entry.map_err(Error::file("cannot read", archive))?;
        let path = entry.path().map_err(Error::file("cannot read", archive))?.into_owned();
        let mode = entry.header().mode().unwrap_or(0o600) & 0o755;
        let parts = plain(&path)?;
        match parts.as_slice() {
            ["manifest.json"] | ["trailer.json"] => {}
            ["tables", table, _] => hand_over(table, entry, rows)?,
            ["blobs", _, hash] => {
                let sum = put(&mut entry, &dir.join(&path), 0o600)?;
                if sum != *hash {
                    return Err(Error::Unusable(format!("the blob {hash} is not what its name says")));
                }
            }
            ["git", mirror, ..] => {
                for part in MIRROR_DIRS {
                    make_dir(&dir.join("git").join(mirror).join(part))?;
                }
                put(&mut entry, &dir.join(&path), mode)?;
            }
            _ => return Err(Error::Unusable(format!("{} is nothing that is kept", path.display()))),
        }
    }
    let root = File::open(dir).map_err(Error::file("cannot open", dir))?;
    nix::unistd::syncfs(root).map_err(|errno| Error::file("cannot sync", dir)(errno.into()))
}

/// The parts of a path that stays where it belongs.
fn plain(path: &Path) -> Result<Vec<&str>, Error> {
    let part = |part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    };
    let parts: Option<Vec<&str>> = path.components().map(part).collect();
    parts.ok_or_else(|| Error::Unusable(format!("{} is no path of a backup", path.display())))
}

fn hand_over(table: &str, entry: impl Read, rows: &mpsc::Sender<Batch>) -> Result<(), Error> {
    let named = Table::named(table);
    let table = named.ok_or_else(|| Error::Unusable(format!("there is no table {table}")))?;
    let mut batch = Vec::new();
    for line in BufReader::new(entry).lines() {
        let line = line.map_err(Error::file("cannot read rows of", Path::new(table.name)))?;
        batch.push(decode(table, &line)?);
    }
    rows.blocking_send((table, batch)).map_err(|_| Error::Gone)
}

/// Writes a file that is not there yet; gives the SHA-256 of its content.
fn put(content: &mut impl Read, path: &Path, mode: u32) -> Result<String, Error> {
    make_dir(path.parent().unwrap_or(path))?;
    let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = opened.map_err(Error::file("cannot write", path))?;
    let (mut hasher, mut piece) = (Sha256::new(), vec![0; 64 * 1024]);
    loop {
        let read = content.read(&mut piece).map_err(Error::file("cannot read the content of", path))?;
        if read == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&piece[..read]);
        file.write_all(&piece[..read]).map_err(Error::file("cannot write", path))?;
    }
}

/// Others may look into a mirror: a sandbox's own user reads its objects there. The data directory is closed.
fn make_dir(path: &Path) -> Result<(), Error> {
    let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
    made.map_err(Error::file("cannot make", &PathBuf::from(path)))
}
