//! One server a data directory: a lock that the kernel lets go of when the process ends, however it ends.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::client::{Announcement, LOCK_FILE};
use crate::failure::{Failure, Outcome};

/// How often the lock is tried; a client that looks who holds it has it for a moment.
const TRIES: u32 = 5;
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// The lock on a data directory, held until dropped.
#[derive(Debug)]
pub(crate) struct DataDirLock(Flock<File>);

impl DataDirLock {
    /// Takes the lock, or says who has it.
    pub(crate) fn take(data_dir: &Path) -> Outcome<Self> {
        let path = data_dir.join(LOCK_FILE);
        let open =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let mut file =
            open.map_err(|error| Failure::other(format!("cannot open {}: {error}", path.display())))?;
        for _ in 1..TRIES {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Self::held(lock),
                Err((back, _)) => file = back,
            }
            std::thread::sleep(PAUSE);
        }
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Self::held(lock),
            Err((file, Errno::EWOULDBLOCK)) => Err(taken(data_dir, file)),
            Err((_, error)) => Err(Failure::other(format!("cannot lock {}: {error}", path.display()))),
        }
    }

    fn held(lock: Flock<File>) -> Outcome<Self> {
        let mut held = Self(lock);
        held.write("")?;
        Ok(held)
    }

    /// Notes in the file how this server is reached, for whoever is refused.
    pub(crate) fn note(&mut self, announcement: &Announcement) -> Outcome<()> {
        let text = serde_json::to_string(announcement)?;
        self.write(&text)
    }

    fn write(&mut self, text: &str) -> Outcome<()> {
        self.0.set_len(0)?;
        self.0.seek(SeekFrom::Start(0))?;
        self.0.write_all(text.as_bytes())?;
        Ok(())
    }
}

fn taken(data_dir: &Path, mut file: File) -> Failure {
    let mut text = String::new();
    let holder =
        file.read_to_string(&mut text).ok().and_then(|_| serde_json::from_str::<Announcement>(&text).ok());
    let who = match holder {
        Some(Announcement { url, pid }) => format!("process {pid} at {url}"),
        None => "another process that is just starting or ending".to_owned(),
    };
    Failure::other(format!(
        "{} is already served by {who}; stop that one, or choose another directory with --data",
        data_dir.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_refused_and_told_who_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = DataDirLock::take(dir.path()).unwrap();
        let starting = DataDirLock::take(dir.path()).unwrap_err().to_string();
        assert!(starting.contains("just starting"), "{starting}");
        first.note(&Announcement { url: "http://127.0.0.1:1".into(), pid: 42 }).unwrap();
        let refused = DataDirLock::take(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("already served by process 42 at http://127.0.0.1:1"), "{refused}");
        drop(first);
        DataDirLock::take(dir.path()).unwrap();
    }
}
