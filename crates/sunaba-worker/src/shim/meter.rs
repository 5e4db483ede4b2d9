//! What the sandbox uses: as the kernel counts it, and by looking where it does not.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::unistd::{SysconfVar, sysconf};
use sunaba_sandbox::cgroup::{Controller, Groups};
use sunaba_sandbox::{disk, process};
use sunaba_types::shim::{Held, ResourceUse};

use super::segments::Segments;

/// Where memory inside looks like files.
const MEMORY_FILES: &[&str] = &["tmp", "dev/shm"];

/// Measures one sandbox. The working directory is the sandbox's.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) groups: Groups,
    /// Whether workspace and home are on a disk of their own.
    pub(super) own_disk: bool,
    /// Memory that belongs to no process.
    pub(super) segments: Segments,
    peak_bytes: AtomicU64,
}

impl Meter {
    pub(super) fn new(groups: Groups) -> Self {
        let own_disk = Path::new(disk::IMAGE_FILE).exists();
        Self { groups, own_disk, segments: Segments::default(), peak_bytes: AtomicU64::new(0) }
    }

    /// Everything. Walks the sandbox's files where nothing counts them, so it may take a while.
    pub(super) fn usage(&self, held: &Held) -> ResourceUse {
        let mut used = self.groups.usage();
        let counted = [Controller::Memory, Controller::Pids, Controller::Account];
        if counted.iter().any(|controller| !self.groups.has(*controller)) {
            let seen = self.processes(held);
            if !self.groups.has(Controller::Memory) {
                used.memory_bytes = seen.memory_bytes;
                used.memory_peak_bytes = seen.memory_peak_bytes;
            }
            if !self.groups.has(Controller::Pids) {
                used.pids = seen.pids;
            }
            if !self.groups.has(Controller::Account) {
                used.cpu_ms = seen.cpu_ms;
            }
        }
        used.disk_bytes = self.disk_bytes(held).map_or(0, |measured| measured.bytes);
        used
    }

    /// What the disk holds, with what was removed and is still held.
    pub(super) fn disk_bytes(&self, held: &Held) -> std::io::Result<disk::Measured> {
        let place = Path::new(disk::DISK_DIR);
        if self.own_disk {
            return Ok(disk::Measured { bytes: disk::used_bytes(place)?, ..disk::Measured::default() });
        }
        let named = disk::measure(place)?;
        Ok(disk::Measured { bytes: named.bytes + disk::deleted_bytes(place, &members(held))?, ..named })
    }

    /// What the processes below the sandbox's init say about themselves.
    pub(super) fn processes(&self, held: &Held) -> ResourceUse {
        let mut used = ResourceUse::default();
        let mut files = HashMap::new();
        for pid in members(held) {
            let Some(one) = look(pid) else { continue };
            memory_files(pid, &mut files);
            used.memory_bytes += one.memory_bytes;
            used.pids += one.threads;
            used.cpu_ms += one.cpu_ms;
        }
        // What is mapped besides is counted twice; what is only held would not be counted at all.
        used.memory_bytes += files.values().sum::<u64>();
        used.memory_bytes += self.segments.bytes();
        used.memory_bytes += MEMORY_FILES
            .iter()
            .map(|name| PathBuf::from(format!("/proc/{}/root/{name}", held.init_pid)))
            .filter(|path| is_memory(path))
            .filter_map(|path| disk::used_bytes(&path).ok())
            .sum::<u64>();
        let peak = self.peak_bytes.fetch_max(used.memory_bytes, Ordering::Relaxed);
        used.memory_peak_bytes = peak.max(used.memory_bytes);
        used
    }
}

impl Meter {
    /// How many files the sandbox's processes have open together; those that are shared count once a process.
    pub(super) fn open_files(&self, held: &Held) -> u64 {
        let inside = self.groups.processes();
        let inside = if inside.is_empty() { members(held) } else { inside };
        inside.into_iter().map(open_files).sum()
    }
}

/// The directory's size is the number of descriptors since Linux 6.2; before that they are counted.
fn open_files(pid: i32) -> u64 {
    let path = format!("/proc/{pid}/fd");
    match std::fs::metadata(&path).map(|open| open.len()) {
        Ok(0) => std::fs::read_dir(&path).map_or(0, |open| open.count() as u64),
        Ok(count) => count,
        Err(_) => 0,
    }
}

fn is_memory(path: &Path) -> bool {
    statfs(path).is_ok_and(|stat| stat.filesystem_type() == TMPFS_MAGIC)
}

/// Notes what a process's anonymous files hold, each file once, by device and number.
fn memory_files(pid: i32, found: &mut HashMap<(u64, u64), u64>) {
    let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return };
    for path in open.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        let anonymous = std::fs::read_link(&path)
            .is_ok_and(|target| target.as_os_str().as_encoded_bytes().starts_with(b"/memfd:"));
        if anonymous && let Ok(file) = std::fs::metadata(&path) {
            found.insert((file.dev(), file.ino()), file.blocks() * 512);
        }
    }
}

/// The sandbox's init and everything below it: in a pid namespace that is everything there is.
pub(super) fn members(held: &Held) -> Vec<i32> {
    if !process::is_alive(held.init_pid, held.init_start_time) {
        return Vec::new();
    }
    let mut all = process::descendants(held.init_pid);
    all.push(held.init_pid);
    all
}

struct One {
    memory_bytes: u64,
    threads: u64,
    cpu_ms: u64,
}

fn look(pid: i32) -> Option<One> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| -> Option<u64> {
        let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
        rest.trim_start_matches(':').split_whitespace().next()?.parse().ok()
    };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // User and system time, its own and that of children it has buried.
    let ticks: u64 = stat
        .rsplit_once(')')?
        .1
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|text| text.parse::<u64>().ok())
        .sum();
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|ticks| u64::try_from(ticks).ok());
    Some(One {
        // Pages of programs and libraries are shared and not the sandbox's doing.
        memory_bytes: (field("RssAnon").unwrap_or(0) + field("RssShmem").unwrap_or(0)) * 1024,
        threads: field("Threads").unwrap_or(1),
        cpu_ms: ticks * 1000 / per_second.unwrap_or(100).max(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_its_own_process() {
        let own = look(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.memory_bytes > 100 * 1024 && own.threads >= 1);
    }

    #[test]
    fn counts_its_own_open_files() {
        let own = i32::try_from(std::process::id()).unwrap();
        let before = open_files(own);
        let held: Vec<_> = (0..500).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        // Other tests of this process open and close theirs meanwhile.
        assert!(open_files(own) > before + 400, "{before} {}", open_files(own));
        drop(held);
    }

    #[test]
    fn counts_what_anonymous_files_hold_once() {
        use std::io::Write as _;

        use nix::sys::memfd::{MFdFlags, memfd_create};
        let own = i32::try_from(std::process::id()).unwrap();
        let mut file = std::fs::File::from(memfd_create(c"held", MFdFlags::MFD_CLOEXEC).unwrap());
        file.write_all(&[1; 300 * 1024]).unwrap();
        let again = file.try_clone().unwrap();
        let mut found = HashMap::new();
        memory_files(own, &mut found);
        let (held, known) = (again.metadata().unwrap(), 300 * 1024);
        assert!(found[&(held.dev(), held.ino())] >= known && found[&(held.dev(), held.ino())] < 2 * known);
    }
}
