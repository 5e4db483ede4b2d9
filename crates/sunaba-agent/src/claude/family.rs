//! The processes that the CLI started.
//!
//! Its commands lead sessions of their own, so that its process group is not enough to find them, and one that
//! outlives its parent is nobody's child. They are known by a mark in their environment, and by their parents.

use std::collections::HashSet;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

pub(super) const MARK: &str = "SUNABA_AGENT_PROCESS";
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long the kernel may take to end what was killed.
const KILL_WAIT: Duration = Duration::from_millis(500);

/// One process; the start time tells it from a later one with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Member {
    pid: i32,
    started: u64,
}

#[derive(Debug)]
pub(super) struct Family {
    mark: Uuid,
    leader: Option<i32>,
}

impl Family {
    pub(super) fn new() -> Self {
        Self { mark: Uuid::new_v4(), leader: None }
    }

    /// What the leader's environment has to hold under [`MARK`].
    pub(super) fn mark(&self) -> String {
        self.mark.to_string()
    }

    pub(super) fn led_by(&mut self, pid: Option<u32>) {
        self.leader = pid.and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 1);
    }

    /// The commands that run: everything outside of the leader's own group.
    pub(super) fn commands(&self) -> HashSet<Member> {
        self.members()
            .into_iter()
            .filter(|(_, group)| Some(*group) != self.leader)
            .map(|(member, _)| member)
            .collect()
    }

    /// Waits until these are gone, and ends them at the deadline.
    pub(super) async fn see_gone(&self, gone: &HashSet<Member>, deadline: Instant) {
        while gone.iter().any(Member::lives) && Instant::now() < deadline {
            sleep(POLL_INTERVAL).await;
        }
        for member in gone.iter().filter(|member| member.lives()) {
            member.kill();
        }
        let last = Instant::now() + KILL_WAIT;
        while gone.iter().any(Member::lives) && Instant::now() < last {
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Signals the leader's group.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // The only failure is that nobody is left, which is what is wanted.
            let _ = killpg(Pid::from_raw(leader), signal);
        }
    }

    /// Ends everything that is left. Again, because what forks may be missed once.
    pub(super) fn kill_all(&self) {
        for _ in 0..3 {
            let members = self.members();
            if members.is_empty() {
                return;
            }
            for (member, _) in members {
                member.kill();
            }
        }
    }

    /// Every living process of this family, with its group.
    fn members(&self) -> Vec<(Member, i32)> {
        let seen: Vec<Seen> = std::fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(Seen::look)
            .collect();
        let mark = format!("{MARK}={}", self.mark);
        let mut found: HashSet<i32> =
            seen.iter().filter(|seen| seen.has_mark(&mark)).map(|seen| seen.member.pid).collect();
        loop {
            let before = found.len();
            found.extend(
                seen.iter()
                    .filter(|seen| found.contains(&seen.parent))
                    .map(|seen| seen.member.pid)
                    .collect::<Vec<_>>(),
            );
            if found.len() == before {
                break;
            }
        }
        seen.iter()
            .filter(|seen| found.contains(&seen.member.pid))
            .map(|seen| (seen.member, seen.group))
            .collect()
    }
}

impl Member {
    fn lives(&self) -> bool {
        Seen::look(self.pid).is_some_and(|seen| seen.member == *self)
    }

    fn kill(&self) {
        // It may have ended just now.
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
    }
}

/// A process as `/proc` shows it.
#[derive(Debug)]
struct Seen {
    member: Member,
    parent: i32,
    group: i32,
}

impl Seen {
    /// None when it is gone, or only waits to be reaped.
    fn look(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in brackets and may hold anything; what follows the last one is plain.
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        if matches!(*fields.first()?, "Z" | "X") {
            return None;
        }
        let number = |index: usize| fields.get(index)?.parse::<i32>().ok();
        let started = fields.get(19)?.parse().ok()?;
        Some(Self { member: Member { pid, started }, parent: number(1)?, group: number(2)? })
    }

    fn has_mark(&self, mark: &str) -> bool {
        // Of another user's process it cannot be read, and then it is none of ours.
        let environment = std::fs::read(format!("/proc/{}/environ", self.member.pid)).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    }
}
