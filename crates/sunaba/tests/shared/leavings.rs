//! What the servers of a data directory left on this machine, and its removal: sandboxes outlive a server that
//! is killed, so whoever kills one clears up after it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sunaba_sandbox::{LocalOptions, LocalProvider, Provider as _, cgroup};

/// How long the removal may take.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Mounts, loop devices, control groups and processes of a data directory, but not its server.
pub(crate) fn left(data: &Path) -> Vec<String> {
    let data = data.canonicalize().unwrap_or_else(|_| data.to_owned());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let below = |line: &&str| line.split(' ').nth(1).is_some_and(|place| Path::new(place).starts_with(&data));
    let mut left: Vec<String> = mounts.lines().filter(below).map(|line| format!("mount {line}")).collect();
    for device in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = std::fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(backing.trim()).starts_with(&data) {
            left.push(format!("loop device of {}", backing.trim()));
        }
    }
    let tag = cgroup::tag(&data.join("sandboxes"));
    left.extend(groups(&tag).into_iter().map(|group| format!("group {}", group.display())));
    left.extend(processes(&data));
    left
}

/// Groups of this name, in whatever hierarchy.
fn groups(tag: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name() == tag {
                    found.push(entry.path());
                }
                open.push(entry.path());
            }
        }
    }
    found
}

fn processes(data: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        if words.iter().any(|word| Path::new(&**word).starts_with(data))
            && words.get(1).is_some_and(|word| word == "shim" || word == "launch")
        {
            found.push(format!("process {}: {}", entry.file_name().display(), words.join(" ")));
        }
    }
    found
}

/// Removes all of it. No server may run on the directory any more. The disks of containers stay in use for as
/// long as their daemon lets those run, so of them only the mounts are sure to go.
pub(crate) fn clear(data: &Path) {
    let containers = data.canonicalize().unwrap_or_else(|_| data.to_owned()).join("containers");
    let of_containers = containers.display().to_string();
    unmount_below(&containers);
    let began = Instant::now();
    loop {
        let left: Vec<_> = left(data).into_iter().filter(|one| !one.contains(&of_containers)).collect();
        if left.is_empty() {
            return;
        }
        if began.elapsed() > PATIENCE {
            assert!(std::thread::panicking(), "what the test left could not be removed: {left:#?}");
            return;
        }
        // A runtime of its own: the test's may be about to end. What fails is tried again.
        let dir = data.to_owned();
        drop(std::thread::spawn(move || remove(&dir)).join());
        std::thread::sleep(POLL);
    }
}

/// What is mounted there, the deepest first, at once or as soon as nobody uses it.
fn unmount_below(dir: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let places = mounts.lines().rev().filter_map(|line| line.split(' ').nth(1));
    for place in places.filter(|place| Path::new(place).starts_with(dir)) {
        drop(std::process::Command::new("umount").args(["--lazy", place]).status());
    }
}

fn remove(data: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(remove_sandboxes(data))
}

async fn remove_sandboxes(data: &Path) -> anyhow::Result<()> {
    let provider = LocalProvider::new(LocalOptions {
        root: data.join("sandboxes"),
        logs: data.join("output"),
        worker_program: PathBuf::from("/nothing/is/started"),
    })?;
    for id in provider.list().await? {
        provider.delete(&id).await?;
    }
    Ok(provider.close().await?)
}
