//! What a sandbox may ask for on this host. Nothing is quietly lowered.

use std::io;
use std::path::Path;

use sunaba_types::shim::Limits;

use crate::{Error, disk};

/// With less not even the worker starts.
const MEMORY_MIN_BYTES: u64 = 16 << 20;
const CPU_MIN_MILLIS: u32 = 10;
const PIDS_MIN: u32 = 16;

/// What this host has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Available {
    pub(crate) memory_bytes: u64,
    pub(crate) cpu_millis: u32,
    pub(crate) disk_bytes: u64,
}

impl Available {
    /// Looks at the host; the disk is the one that `dir` lies on.
    pub(crate) fn look(dir: &Path) -> io::Result<Self> {
        let memory = std::fs::read_to_string("/proc/meminfo")?;
        let kib: Option<u64> = memory
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self {
            memory_bytes: kib.map_or(u64::MAX, |kib| kib * 1024),
            cpu_millis: u32::try_from(cores).unwrap_or(u32::MAX).saturating_mul(1000),
            // All of it, as with memory: what a sandbox may use is a limit and is not set aside for it. Whether
            // there is room for one more is asked where sandboxes are started.
            disk_bytes: disk::size_bytes(dir)?,
        })
    }

    /// Refuses what is impossible and names what would be possible.
    pub(crate) fn check(&self, limits: &Limits) -> Result<(), Error> {
        let refused = |text: String| Err(Error::Refused(text));
        let mib = |bytes: u64| bytes.div_euclid(1 << 20);
        match limits.memory_bytes {
            Some(asked) if asked > self.memory_bytes => {
                return refused(format!(
                    "{} MiB of memory were asked for and this host has {} MiB; ask for less",
                    mib(asked),
                    mib(self.memory_bytes)
                ));
            }
            Some(asked) if asked < MEMORY_MIN_BYTES => {
                return refused(format!("a sandbox needs at least {} MiB of memory", mib(MEMORY_MIN_BYTES)));
            }
            _ => {}
        }
        match limits.cpu_millis {
            Some(asked) if asked > self.cpu_millis => {
                return refused(format!(
                    "{} cores were asked for and this host has {}; ask for less",
                    f64::from(asked) / 1000.0,
                    self.cpu_millis / 1000
                ));
            }
            Some(asked) if asked < CPU_MIN_MILLIS => {
                return refused(format!(
                    "a sandbox needs at least {} cores",
                    f64::from(CPU_MIN_MILLIS) / 1000.0
                ));
            }
            _ => {}
        }
        if limits.pids.is_some_and(|asked| asked < PIDS_MIN) {
            return refused(format!("a sandbox needs at least {PIDS_MIN} processes"));
        }
        match limits.disk_bytes {
            Some(asked) if asked > self.disk_bytes => refused(format!(
                "{} MiB of disk were asked for and the disk of this host has {} MiB; ask for less",
                mib(asked),
                mib(self.disk_bytes)
            )),
            Some(asked) if asked < disk::DISK_MIN_BYTES => {
                refused(format!("a sandbox needs at least {} MiB of disk", mib(disk::DISK_MIN_BYTES)))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_impossible_is_refused_with_the_number_that_is_possible() {
        let host = Available { memory_bytes: 8 << 30, cpu_millis: 2000, disk_bytes: 10 << 30 };
        let none = Limits::default();
        assert!(host.check(&none).is_ok());
        let all = Limits {
            memory_bytes: Some(8 << 30),
            cpu_millis: Some(2000),
            pids: Some(16),
            disk_bytes: Some(10 << 30),
        };
        assert!(host.check(&all).is_ok(), "everything there is");
        let cases = [
            (Limits { memory_bytes: Some((8 << 30) + 1), ..none }, "8192 MiB"),
            (Limits { memory_bytes: Some(1), ..none }, "16 MiB"),
            (Limits { cpu_millis: Some(2001), ..none }, "this host has 2;"),
            (Limits { cpu_millis: Some(0), ..none }, "0.01 cores"),
            (Limits { pids: Some(1), ..none }, "16 processes"),
            (Limits { disk_bytes: Some(11 << 30), ..none }, "10240 MiB"),
            (Limits { disk_bytes: Some(0), ..none }, "16 MiB"),
        ];
        for (limits, words) in cases {
            let error = host.check(&limits).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let real = Available::look(Path::new("/")).unwrap();
        assert!(real.memory_bytes > MEMORY_MIN_BYTES && real.cpu_millis >= 1000);
        let free = disk::free_bytes(Path::new("/")).unwrap();
        let more_than_is_free = Limits { disk_bytes: Some(free + 1), ..none };
        assert!(real.check(&more_than_is_free).is_ok(), "a disk that is half full still takes sandboxes");
    }
}
