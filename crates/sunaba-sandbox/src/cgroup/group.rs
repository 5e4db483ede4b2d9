//! The groups of one sandbox.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sunaba_types::shim::{Limits, ResourceUse};

use super::own::{self, SHIMS};
use super::{Controller, Hierarchy, Version};
use crate::process;

/// How long an emptied group may take to be removable: its last process is still being buried.
const REMOVAL_DEADLINE: Duration = Duration::from_secs(5);
const REMOVAL_POLL: Duration = Duration::from_millis(2);
/// How often a group is made again that vanishes as soon as it is there.
const TRIES: usize = 50;
const CPU_PERIOD_US: u64 = 100_000;
/// The kernel refuses less.
const CPU_QUOTA_MIN_US: u64 = 1_000;

/// One sandbox's group in every hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    hierarchies: Vec<Hierarchy>,
    /// The server's own group.
    tag: String,
    name: String,
}

impl Groups {
    /// Names the groups; nothing is made yet.
    pub fn new(hierarchies: Vec<Hierarchy>, tag: &str, name: &str) -> Self {
        Self { hierarchies, tag: tag.to_owned(), name: name.to_owned() }
    }

    /// Whether these are surely the groups of this sandbox and of no one else: what they hold is killed.
    pub fn belong_to(&self, sandbox_id: &str) -> bool {
        let plain = |text: &str| !text.is_empty() && !text.contains('/') && text != "." && text != "..";
        self.name == sandbox_id
            && plain(&self.name)
            && self.name != SHIMS
            && self.tag.starts_with("sunaba-")
            && plain(&self.tag)
    }

    /// Whether some hierarchy holds a controller.
    pub fn has(&self, controller: Controller) -> bool {
        self.hierarchies.iter().any(|hierarchy| hierarchy.has(controller))
    }

    /// Where the groups are.
    pub fn dirs(&self) -> Vec<PathBuf> {
        self.hierarchies.iter().map(|hierarchy| self.dir(hierarchy)).collect()
    }

    fn dir(&self, hierarchy: &Hierarchy) -> PathBuf {
        hierarchy.base.join(&self.tag).join(&self.name)
    }

    /// Makes the groups with their limits; made again, they are the same.
    pub fn make(&self, limits: &Limits) -> io::Result<()> {
        for hierarchy in &self.hierarchies {
            let dir = self.dir(hierarchy);
            self.make_dir(hierarchy, &dir).map_err(named(&dir))?;
            set_limits(&dir, hierarchy, limits)?;
        }
        Ok(())
    }

    /// The server's group goes with its last sandbox, so it may vanish between the two steps.
    fn make_dir(&self, hierarchy: &Hierarchy, dir: &Path) -> io::Result<()> {
        for _ in 0..TRIES {
            let parent = hierarchy.base.join(&self.tag);
            make_one(&parent)?;
            if hierarchy.version == Version::V2 {
                hand_down(hierarchy, &parent);
            }
            match make_one(dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
                Ok(()) => {}
            }
            if hierarchy.version == Version::V2 {
                // In between another may have removed it and made it anew, and handed down nothing yet.
                hand_down(hierarchy, &parent);
            }
            return Ok(());
        }
        Err(vanishing())
    }

    /// Moves this process in; what it starts from here on is born inside.
    pub fn enter(&self) -> io::Result<()> {
        self.take_in(own_pid())
    }

    pub(super) fn take_in(&self, pid: i32) -> io::Result<()> {
        self.dirs().iter().try_for_each(|dir| write(&dir.join("cgroup.procs"), &pid.to_string()))
    }

    /// Moves this process out of the sandbox's groups, and out of the server's, into that of the shims.
    pub fn leave(&self) -> io::Result<()> {
        self.take_out(own_pid())
    }

    pub(super) fn take_out(&self, pid: i32) -> io::Result<()> {
        self.hierarchies.iter().try_for_each(|hierarchy| self.to_shims(hierarchy, pid))
    }

    /// Whoever removes the last of the other sandboxes removes this group too, for as long as nobody is in it.
    fn to_shims(&self, hierarchy: &Hierarchy, pid: i32) -> io::Result<()> {
        let shims = hierarchy.base.join(&self.tag).join(SHIMS);
        let list = shims.join("cgroup.procs");
        for _ in 0..TRIES {
            self.make_dir(hierarchy, &shims).map_err(named(&shims))?;
            let moved = OpenOptions::new()
                .write(true)
                .open(&list)
                .and_then(|mut file| file.write_all(pid.to_string().as_bytes()));
            match moved {
                Err(error) if has_vanished(&error) => {}
                other => return other.map_err(named(&list)),
            }
        }
        Err(vanishing())
    }

    /// Every process inside, but this one.
    pub fn processes(&self) -> Vec<i32> {
        let mut all: Vec<i32> = self
            .dirs()
            .iter()
            .filter_map(|dir| fs::read_to_string(dir.join("cgroup.procs")).ok())
            .flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<i32>>())
            .filter(|pid| *pid > 0 && *pid != own_pid())
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Ends every process inside, at once where the kernel can. The caller looks whether any is left.
    pub fn kill(&self) {
        if self.name.is_empty() || !self.tag.starts_with("sunaba-") {
            return;
        }
        for hierarchy in self.hierarchies.iter().filter(|hierarchy| hierarchy.has(Controller::Kill)) {
            let dir = self.dir(hierarchy);
            let inside = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
            // A shim that is still inside must not end itself.
            if !inside.lines().any(|line| line == own_pid().to_string()) {
                let _ = write(&dir.join("cgroup.kill"), "1");
            }
        }
        for pid in self.processes() {
            if let Some(started) = process::start_time(pid) {
                process::signal_if_alive(pid, started, nix::sys::signal::Signal::SIGKILL);
            }
        }
    }

    /// Removes the groups, which must be empty; waits a little for the last process to be buried.
    pub fn remove(&self) -> io::Result<()> {
        let deadline = Instant::now() + REMOVAL_DEADLINE;
        for dir in self.dirs() {
            loop {
                match fs::remove_dir(&dir) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                    Err(error) if Instant::now() >= deadline => return Err(named(&dir)(error)),
                    Err(_) => std::thread::sleep(REMOVAL_POLL),
                    Ok(()) => break,
                }
            }
        }
        Ok(())
    }

    /// Removes the server's own groups where nothing is left in them. A shim that has just ended is waited for.
    pub fn remove_parents(&self) {
        own::remove_empty(&self.hierarchies, &self.tag);
    }

    /// How many processes the kernel killed for want of memory.
    pub fn oom_kills(&self) -> u64 {
        let Some((hierarchy, dir)) = self.of(Controller::Memory) else { return 0 };
        let file = match hierarchy.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        field(&dir.join(file), "oom_kill").unwrap_or_default()
    }

    /// What the kernel counted; what it does not count stays zero.
    pub fn usage(&self) -> ResourceUse {
        let mut used = ResourceUse::default();
        if let Some((hierarchy, dir)) = self.of(Controller::Memory) {
            let (now, peak) = match hierarchy.version {
                Version::V1 => ("memory.usage_in_bytes", "memory.max_usage_in_bytes"),
                Version::V2 => ("memory.current", "memory.peak"),
            };
            used.memory_bytes = number(&dir.join(now)).unwrap_or_default();
            used.memory_peak_bytes = number(&dir.join(peak)).unwrap_or(used.memory_bytes);
        }
        if let Some((hierarchy, dir)) = self.of(Controller::Account) {
            used.cpu_ms = match hierarchy.version {
                Version::V1 => number(&dir.join("cpuacct.usage")).unwrap_or_default() / 1_000_000,
                Version::V2 => field(&dir.join("cpu.stat"), "usage_usec").unwrap_or_default() / 1_000,
            };
        }
        if let Some((_, dir)) = self.of(Controller::Pids) {
            used.pids = number(&dir.join("pids.current")).unwrap_or_default();
        }
        used
    }

    fn of(&self, controller: Controller) -> Option<(&Hierarchy, PathBuf)> {
        let hierarchy = self.hierarchies.iter().find(|hierarchy| hierarchy.has(controller))?;
        Some((hierarchy, self.dir(hierarchy)))
    }
}

pub(super) fn set_limits(dir: &Path, hierarchy: &Hierarchy, limits: &Limits) -> io::Result<()> {
    for (file, value, needed) in settings(hierarchy, limits) {
        let path = dir.join(file);
        if needed || path.exists() {
            write(&path, &value)?;
        }
    }
    Ok(())
}

/// File, value, and whether its absence is an error.
fn settings(hierarchy: &Hierarchy, limits: &Limits) -> Vec<(&'static str, String, bool)> {
    let mut all = Vec::new();
    if let Some(bytes) = limits.memory_bytes.filter(|_| hierarchy.has(Controller::Memory)) {
        match hierarchy.version {
            // No swap on top; where swap is not counted the kernel is at least told not to use it.
            Version::V1 => all.extend([
                ("memory.limit_in_bytes", bytes.to_string(), true),
                ("memory.memsw.limit_in_bytes", bytes.to_string(), false),
                ("memory.swappiness", "0".to_owned(), false),
            ]),
            // The group as a whole is not killed: one compiler too many must not end the agent.
            Version::V2 => all.extend([
                ("memory.max", bytes.to_string(), true),
                ("memory.swap.max", "0".to_owned(), false),
                ("memory.oom.group", "0".to_owned(), false),
            ]),
        }
    }
    if let Some(millis) = limits.cpu_millis.filter(|_| hierarchy.has(Controller::Cpu)) {
        let quota = (u64::from(millis) * CPU_PERIOD_US / 1000).max(CPU_QUOTA_MIN_US);
        match hierarchy.version {
            Version::V1 => all.extend([
                ("cpu.cfs_period_us", CPU_PERIOD_US.to_string(), true),
                ("cpu.cfs_quota_us", quota.to_string(), true),
            ]),
            Version::V2 => all.push(("cpu.max", format!("{quota} {CPU_PERIOD_US}"), true)),
        }
    }
    if let Some(pids) = limits.pids.filter(|_| hierarchy.has(Controller::Pids)) {
        all.push(("pids.max", pids.to_string(), true));
    }
    all
}

/// A group that was removed while it was open has no device any more.
fn has_vanished(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(nix::errno::Errno::ENODEV as i32)
}

fn vanishing() -> io::Error {
    io::Error::other("the server's own group keeps vanishing")
}

fn make_one(dir: &Path) -> io::Result<()> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Lets groups below have the controllers. What the kernel refuses is seen by what is missing in them.
fn hand_down(hierarchy: &Hierarchy, parent: &Path) {
    let names = [(Controller::Memory, "+memory"), (Controller::Cpu, "+cpu"), (Controller::Pids, "+pids")];
    for dir in [hierarchy.base.as_path(), parent] {
        for (_, name) in names.iter().filter(|(controller, _)| hierarchy.has(*controller)) {
            let _ = write(&dir.join("cgroup.subtree_control"), name);
        }
    }
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or_default()
}

fn write(path: &Path, value: &str) -> io::Result<()> {
    let write = || OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes());
    write().map_err(named(path))
}

fn named(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    let path = path.display().to_string();
    move |error| io::Error::new(error.kind(), format!("{path}: {error}"))
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn field(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unified(base: &Path) -> Hierarchy {
        use Controller::{Account, Cpu, Kill, Memory, Pids};
        Hierarchy {
            version: Version::V2,
            base: base.to_owned(),
            controllers: vec![Memory, Cpu, Pids, Account, Kill],
        }
    }

    #[test]
    fn writes_what_the_unified_hierarchy_understands() {
        let root = tempfile::tempdir().unwrap();
        let groups = Groups::new(vec![unified(root.path())], "sunaba-x", "one");
        let dir = groups.dirs().remove(0);
        fs::create_dir_all(&dir).unwrap();
        for file in ["memory.max", "memory.swap.max", "memory.oom.group", "cpu.max", "pids.max"] {
            fs::write(dir.join(file), "").unwrap();
        }
        let limits =
            Limits { memory_bytes: Some(1 << 30), cpu_millis: Some(1500), pids: Some(99), disk_bytes: None };
        groups.make(&limits).unwrap();
        let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap();
        assert_eq!(read("memory.max"), "1073741824");
        assert_eq!((read("memory.swap.max"), read("memory.oom.group")), ("0".to_owned(), "0".to_owned()));
        assert_eq!((read("cpu.max"), read("pids.max")), ("150000 100000".to_owned(), "99".to_owned()));
        fs::write(dir.join("memory.events"), "low 0\noom 7\noom_kill 3\noom_group_kill 0\n").unwrap();
        fs::write(dir.join("cpu.stat"), "usage_usec 42000\nuser_usec 1\n").unwrap();
        fs::write(dir.join("memory.current"), "10\n").unwrap();
        fs::write(dir.join("memory.peak"), "20\n").unwrap();
        assert_eq!(groups.oom_kills(), 3);
        let used = groups.usage();
        assert_eq!((used.cpu_ms, used.memory_bytes, used.memory_peak_bytes), (42, 10, 20));
    }

    #[test]
    fn a_limit_that_cannot_be_set_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let groups = Groups::new(vec![unified(root.path())], "sunaba-x", "one");
        let limits = Limits { pids: Some(9), ..Limits::default() };
        let error = groups.make(&limits).unwrap_err().to_string();
        assert!(error.contains("pids.max"), "{error}");
    }

    #[test]
    fn only_a_sandbox_of_that_name_is_its_own() {
        let groups = |tag: &str, name: &str| Groups::new(Vec::new(), tag, name);
        assert!(groups("sunaba-1", "sbx").belong_to("sbx"));
        for (tag, name) in [("sunaba-1", "other"), ("", "sbx"), ("sunaba-/..", "sbx"), ("sunaba-1", "")] {
            assert!(!groups(tag, name).belong_to(name) || name == "other", "{tag} {name}");
        }
        assert!(!groups("sunaba-1", "..").belong_to(".."));
        assert!(!groups("sunaba-1", "shims").belong_to("shims"));
    }
}
