//! Reads an archive and decides whether it is to be believed.

use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom};
use std::path::Path;

use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use sunaba_types::chain::Hash;

use crate::manifest::{FORMAT, TableForm};
use crate::{Contents, Error, Manifest, Trailer};

/// What a manifest or trailer has at most.
const WORDS_MAX_BYTES: u64 = 1024 * 1024;

/// An archive that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// What it says of itself.
    pub manifest: Manifest,
    /// What it ends with.
    pub trailer: Trailer,
}

/// Checks that an archive is whole, as it was made, and of a form that this program knows. Reads all of it.
pub fn inspect(path: &Path) -> Result<Backup, Error> {
    let mut file = File::open(path).map_err(Error::file("cannot read", path))?;
    let (manifest, trailer, length) = ends(&file, path)?;
    file.seek(SeekFrom::Start(0)).map_err(Error::file("cannot read", path))?;
    if !trailer.is_of(&sum(file.take(length)).map_err(Error::file("cannot read", path))?) {
        return Err(unusable(path, "is not as it was made: its SHA-256 is another"));
    }
    let known = manifest.contents == Contents::FilesOnly || manifest.tables == TableForm::all();
    if manifest.format != FORMAT || !known {
        let why = format!(
            "was made by version {}, whose rows have another form: restore it with that version and then start \
             this one",
            manifest.version
        );
        return Err(unusable(path, &why));
    }
    Ok(Backup { manifest, trailer })
}

fn sum(mut content: impl Read) -> std::io::Result<Hash> {
    let (mut hasher, mut piece) = (Sha256::new(), vec![0; 256 * 1024]);
    loop {
        match content.read(&mut piece)? {
            0 => return Ok(hasher.finalize().into()),
            read => hasher.update(&piece[..read]),
        }
    }
}

/// The first and the last entry, and how many bytes are before the last.
fn ends(file: &File, path: &Path) -> Result<(Manifest, Trailer, u64), Error> {
    let broken = |_| unusable(path, "is no backup, or broke off");
    let mut archive = tar::Archive::new(file);
    let (mut manifest, mut trailer) = (None, None);
    for entry in archive.entries_with_seek().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let name = entry.path().map_err(broken)?.into_owned();
        if manifest.is_none() {
            if name != Path::new("manifest.json") {
                return Err(unusable(path, "is no backup"));
            }
            manifest = Some(words(&mut entry, path)?);
        } else if name == Path::new("trailer.json") {
            let position = entry.raw_header_position();
            trailer = Some((words(&mut entry, path)?, position));
        } else if trailer.is_some() {
            return Err(unusable(path, "has something behind its end"));
        }
    }
    let manifest = manifest.ok_or_else(|| unusable(path, "is no backup"))?;
    let (trailer, length) = trailer.ok_or_else(|| unusable(path, "is not whole: it broke off"))?;
    Ok((manifest, trailer, length))
}

fn words<T: DeserializeOwned>(entry: &mut impl Read, path: &Path) -> Result<T, Error> {
    serde_json::from_reader(entry.take(WORDS_MAX_BYTES)).map_err(|_| unusable(path, "is no backup"))
}

pub(crate) fn unusable(path: &Path, why: &str) -> Error {
    Error::Unusable(format!("{} {why}", path.display()))
}
