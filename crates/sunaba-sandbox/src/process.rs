//! Processes as `/proc` shows them: who lives, since when, whose they are.
//!
//! A pid alone names nobody, because the kernel reuses it; a pid with its start
//! time does.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process's start time in clock ticks since boot; `None` when there is no such process or it is a zombie.
pub fn start_time(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse_start_time(&stat)
}

/// Whether exactly this process still lives.
pub fn is_alive(pid: i32, started: u64) -> bool {
    pid > 0 && start_time(pid) == Some(started)
}

/// Sends a signal to exactly this process; one that is gone is no error.
pub fn signal_if_alive(pid: i32, started: u64, signal: Signal) {
    if is_alive(pid, started) {
        // A failure means that it ended in between, or is not ours; the caller verifies either way.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// The inode of a process's pid namespace.
pub fn pid_namespace(pid: i32) -> Option<u64> {
    let link = fs::read_link(format!("/proc/{pid}/ns/pid")).ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// The real uid of a process.
pub fn real_uid(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.parse().ok()
}

/// The living children of a process.
pub fn children(parent: i32) -> Vec<i32> {
    all().into_iter().filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

/// Everything alive that a process started, itself or through others.
pub fn descendants(ancestor: i32) -> Vec<i32> {
    let parents: Vec<(i32, i32)> = all().into_iter().filter_map(|pid| Some((pid, parent_of(pid)?))).collect();
    let mut found = vec![ancestor];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        // A pid is listed once and its own ancestor never: this ends.
        found.extend(
            parents.iter().filter(|(pid, of)| *of == parent && *pid != ancestor).map(|(pid, _)| *pid),
        );
        next += 1;
    }
    found.into_iter().skip(1).filter(|pid| start_time(*pid).is_some()).collect()
}

/// Living processes that belong to a sandbox: in its pid namespace, or of its own host user.
///
/// Callers kill what they are given, so whatever could name others than one sandbox counts for nothing: the
/// pid namespace of this process itself, and a user outside the range kept for sandboxes.
pub fn of_sandbox(pid_namespace_inode: Option<u64>, host_uid: Option<u32>) -> Vec<i32> {
    let inode = pid_namespace_inode.filter(|inode| is_foreign_namespace(*inode));
    let uid = host_uid.filter(|uid| crate::UID_RANGE.contains(uid));
    if inode.is_none() && uid.is_none() {
        return Vec::new();
    }
    all()
        .into_iter()
        .filter(|pid| start_time(*pid).is_some())
        .filter(|pid| {
            let in_namespace = inode.is_some() && pid_namespace(*pid) == inode;
            in_namespace || (uid.is_some() && real_uid(*pid) == uid)
        })
        .collect()
}

/// Whether this is surely another pid namespace than the one this process lives in.
pub fn is_foreign_namespace(inode: u64) -> bool {
    let own = i32::try_from(std::process::id()).ok().and_then(pid_namespace);
    inode != 0 && own.is_some_and(|own| own != inode)
}

fn all() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    after_name(&stat)?.nth(1)?.parse().ok()
}

/// The fields after the program's name, which may itself hold spaces and brackets.
fn after_name(stat: &str) -> Option<std::str::SplitWhitespace<'_>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace())
}

fn parse_start_time(stat: &str) -> Option<u64> {
    let mut fields = after_name(stat)?;
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_start_time_behind_an_awkward_name() {
        let tail = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
        assert_eq!(parse_start_time(&format!("7 (a) b (c)) {tail}")), Some(4242));
        assert_eq!(parse_start_time(&format!("7 (x) {}", tail.replacen('S', "Z", 1))), None);
    }

    #[test]
    fn knows_itself_and_not_a_namesake() {
        let own = i32::try_from(std::process::id()).unwrap();
        let started = start_time(own).expect("the test process lives");
        assert!(is_alive(own, started));
        assert!(!is_alive(own, started + 1), "another process with the same pid is not this one");
        assert!(pid_namespace(own).is_some());
    }

    #[test]
    fn nothing_that_could_be_the_host_counts_as_a_sandbox() {
        let own = i32::try_from(std::process::id()).unwrap();
        let namespace = pid_namespace(own);
        assert!(namespace.is_some());
        assert_eq!(of_sandbox(namespace, real_uid(own)), Vec::<i32>::new());
        assert_eq!(of_sandbox(namespace, Some(0)), Vec::<i32>::new());
        assert_eq!(of_sandbox(Some(0), None), Vec::<i32>::new());
        assert!(!is_foreign_namespace(namespace.unwrap()));
    }
}
