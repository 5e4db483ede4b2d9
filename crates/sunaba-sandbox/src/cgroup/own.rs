//! The server's own group: it holds those of its sandboxes and that of their shims, and goes with the last.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Hierarchy;
use crate::process;

/// The group that shims live in: outside every sandbox's limits and outside the server's own group.
pub(super) const SHIMS: &str = "shims";
const PROBE_PREFIX: &str = "probe-";
/// How long a shim that has ended may take to be out of its group. What stays is tried again by the next removal.
const PATIENCE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(2);

/// A name for a group that is only tried out; it says who tries.
pub(super) fn probe_name() -> String {
    let name = format!("{PROBE_PREFIX}{}-{:?}", std::process::id(), std::thread::current().id());
    name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect()
}

/// Names of sandboxes that have a group here.
pub fn leftovers(hierarchies: &[Hierarchy], tag: &str) -> Vec<String> {
    let mut names: Vec<String> = hierarchies
        .iter()
        .flat_map(|hierarchy| groups_in(&hierarchy.base.join(tag)))
        .filter(|name| name != SHIMS && !name.starts_with(PROBE_PREFIX))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Removes the server's own group wherever nothing is left in it. Whoever makes a group in it at the same time
/// finds it gone and makes it again.
pub fn remove_empty(hierarchies: &[Hierarchy], tag: &str) {
    let deadline = Instant::now() + PATIENCE;
    for hierarchy in hierarchies {
        let parent = hierarchy.base.join(tag);
        sweep_probes(&parent);
        // A sandbox or a try keeps it, and will remove it when it goes.
        while parent.exists() && groups_in(&parent).iter().all(|name| name == SHIMS) {
            let _ = fs::remove_dir(parent.join(SHIMS));
            if fs::remove_dir(&parent).is_ok() || Instant::now() >= deadline {
                break;
            }
            std::thread::sleep(POLL);
        }
    }
}

/// Removes what a process that was killed in the middle of its try left.
fn sweep_probes(parent: &Path) {
    for name in groups_in(parent) {
        let owner = name.strip_prefix(PROBE_PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok());
        if owner.is_some_and(|pid: i32| process::start_time(pid).is_none()) {
            let _ = fs::remove_dir(parent.join(name));
        }
    }
}

fn groups_in(parent: &Path) -> Vec<String> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use sunaba_types::shim::Limits;

    use super::*;
    use crate::cgroup::{Groups, View, find};

    /// Hierarchies of this host, or none where this user can make no groups.
    fn hierarchies(tag: &str) -> Option<Vec<Hierarchy>> {
        let found = find(&View::default(), tag);
        if found.is_empty() {
            println!("left out: this user can make no control groups here");
        }
        (!found.is_empty()).then_some(found)
    }

    fn is_there(hierarchies: &[Hierarchy], tag: &str) -> bool {
        hierarchies.iter().any(|hierarchy| hierarchy.base.join(tag).exists())
    }

    #[test]
    fn it_goes_with_the_last_and_with_what_a_killed_try_left() {
        let tag = crate::cgroup::tag(Path::new("/a test of this module/last"));
        let Some(all) = hierarchies(&tag) else { return };
        assert!(!is_there(&all, &tag), "a try leaves nothing");
        let (one, two) = (Groups::new(all.clone(), &tag, "one"), Groups::new(all.clone(), &tag, "two"));
        one.make(&Limits::default()).unwrap();
        two.make(&Limits::default()).unwrap();
        // No process has this number.
        fs::create_dir(all[0].base.join(&tag).join(format!("{PROBE_PREFIX}999999999-1"))).unwrap();
        one.remove().unwrap();
        one.remove_parents();
        assert_eq!(leftovers(&all, &tag), ["two"]);
        two.remove().unwrap();
        remove_empty(&all, &tag);
        assert!(!is_there(&all, &tag));
    }

    #[test]
    fn a_sandbox_that_comes_while_the_last_goes_finds_its_place() {
        let tag = crate::cgroup::tag(Path::new("/a test of this module/race"));
        let Some(all) = hierarchies(&tag) else { return };
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let going = scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    for hierarchy in &all {
                        // Without a look first, which makes it harsher than any removal.
                        let _ = fs::remove_dir(hierarchy.base.join(&tag).join(SHIMS));
                        let _ = fs::remove_dir(hierarchy.base.join(&tag));
                    }
                }
            });
            let coming = scope.spawn(|| {
                for turn in 0..40 {
                    let groups = Groups::new(all.clone(), &tag, &format!("turn-{turn}"));
                    let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
                    let pid = i32::try_from(cat.id()).unwrap();
                    let moved = groups
                        .make(&Limits::default())
                        .and_then(|()| groups.take_in(pid))
                        .and_then(|()| groups.take_out(pid));
                    cat.kill().unwrap();
                    cat.wait().unwrap();
                    groups.remove().unwrap();
                    moved.unwrap();
                }
            });
            let came = coming.join();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            going.join().unwrap();
            came.unwrap();
        });
        remove_empty(&all, &tag);
        assert!(!is_there(&all, &tag));
    }
}
