//! Small tar archives, which is how files travel to and from a container.

use std::io::{self, Read as _};

use tar::{Builder, EntryType, Header};

use crate::Error;

/// One file.
pub(super) fn file(name: &str, content: &[u8], uid: u32, mode: u32) -> Result<Vec<u8>, Error> {
    let mut header = header(uid, mode);
    header.set_entry_type(EntryType::Regular);
    header.set_size(content.len() as u64);
    let mut tape = Builder::new(Vec::with_capacity(content.len() + 4096));
    tape.append_data(&mut header, name, content).and_then(|()| tape.into_inner()).map_err(packing())
}

/// Directories: their owner and mode.
pub(super) fn directories(names: &[&str], uid: u32, mode: u32) -> Result<Vec<u8>, Error> {
    let mut tape = Builder::new(Vec::new());
    for name in names {
        let mut header = header(uid, mode);
        header.set_entry_type(EntryType::Directory);
        header.set_size(0);
        tape.append_data(&mut header, format!("{name}/"), io::empty()).map_err(packing())?;
    }
    tape.into_inner().map_err(packing())
}

/// The first file in an archive, at most `limit` bytes of it; none when there is something else.
pub(super) fn first_file(tape: &[u8], limit: usize) -> io::Result<Option<Vec<u8>>> {
    let mut archive = tar::Archive::new(tape);
    let Some(entry) = archive.entries()?.next() else { return Ok(None) };
    let entry = entry?;
    if !entry.header().entry_type().is_file() {
        return Ok(None);
    }
    let mut content = Vec::new();
    match entry.take(limit as u64).read_to_end(&mut content) {
        Ok(_) => Ok(Some(content)),
        // The archive was not read further than the limit.
        Err(_) if content.len() >= limit => Ok(Some(content)),
        Err(error) => Err(error),
    }
}

fn header(uid: u32, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_uid(u64::from(uid));
    header.set_gid(u64::from(uid));
    header.set_mode(mode);
    header.set_mtime(0);
    header
}

fn packing() -> impl FnOnce(io::Error) -> Error {
    Error::backend("pack a file for the container")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let name = "n".repeat(200);
        let packed = file(&name, b"content", 7, 0o640).unwrap();
        assert_eq!(first_file(&packed, 100).unwrap().unwrap(), b"content");
        assert_eq!(first_file(&packed, 4).unwrap().unwrap(), b"cont");
        let mut archive = tar::Archive::new(packed.as_slice());
        let entry = archive.entries().unwrap().next().unwrap().unwrap();
        assert_eq!(entry.path().unwrap().to_str(), Some(name.as_str()));
        assert_eq!((entry.header().uid().unwrap(), entry.header().mode().unwrap()), (7, 0o640));
        assert_eq!(first_file(&directories(&["d"], 7, 0o700).unwrap(), 9).unwrap(), None);
    }
}
