//! A clock that can be set while a program runs by it.
//!
//! libfaketime stands between the program and the system's time of day; what measures durations is left alone,
//! as it is when an administrator or NTP sets a real clock.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// The time of day of one server.
pub(super) struct FakeClock {
    library: PathBuf,
    file: PathBuf,
}

impl FakeClock {
    /// One that is right at first. The error says why there is none.
    pub(super) fn new(dir: &Path) -> anyhow::Result<Self> {
        let library = library().context("libfaketime is not installed (package faketime)")?;
        let clock = Self { library, file: dir.join("time") };
        clock.set(0)?;
        Ok(clock)
    }

    /// What a program is started with to live by it.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            // Looks into the file this often.
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
        ]
    }

    /// How many seconds off it is set.
    pub(super) fn off_seconds(&self) -> anyhow::Result<i64> {
        Ok(std::fs::read_to_string(&self.file)?.trim().parse()?)
    }

    /// Sets it this many seconds off, within a second.
    pub(super) fn set(&self, off_seconds: i64) -> anyhow::Result<()> {
        // Never a file that is half there.
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{off_seconds:+}\n"))?;
        Ok(std::fs::rename(new, &self.file)?)
    }
}

impl Drop for FakeClock {
    /// A program that is killed leaves a little shared memory of the library behind.
    fn drop(&mut self) {
        for entry in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let pid = name.strip_prefix("faketime_shm_").or_else(|| name.strip_prefix("sem.faketime_sem_"));
            if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                drop(std::fs::remove_file(entry.path()));
            }
        }
    }
}

fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = folders.chain([PathBuf::from("/usr/lib"), PathBuf::from("/usr/lib64")]);
    folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|file| file.is_file())
}
