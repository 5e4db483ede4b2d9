//! Tells clients on this machine how the server is reached: a file in the data directory, there while it runs.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::client::{Announcement, SERVER_FILE};
use crate::failure::Outcome;

/// The announcement; taken back when dropped.
#[derive(Debug)]
pub(super) struct Announced(PathBuf);

impl Announced {
    /// Writes the file: all of it at once, because a client may be waiting for it.
    pub(super) fn write(data_dir: &Path, announcement: &Announcement) -> Outcome<Self> {
        let path = data_dir.join(SERVER_FILE);
        let unfinished = path.with_extension("json.new");
        let mut file = std::fs::File::create(&unfinished)?;
        serde_json::to_writer(&mut file, announcement)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        std::fs::rename(&unfinished, &path)?;
        Ok(Self(path))
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::warn!(%error, "could not take back the announcement of this server");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_while_the_server_is() {
        let dir = tempfile::tempdir().unwrap();
        let announcement = Announcement { url: "http://127.0.0.1:1".into(), pid: 42 };
        let announced = Announced::write(dir.path(), &announcement).unwrap();
        let text = std::fs::read_to_string(dir.path().join(SERVER_FILE)).unwrap();
        assert_eq!(serde_json::from_str::<Announcement>(&text).unwrap(), announcement);
        drop(announced);
        assert!(!dir.path().join(SERVER_FILE).exists());
    }
}
