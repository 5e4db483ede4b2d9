//! The processes that an agent's program started.
//!
//! Its commands lead sessions of their own, so that its process group is not enough to find them. They are known by a
//! mark in their environment and by their parents. One that outlives its parent becomes a child of ours, so that one
//! without the mark is known too: nothing else that is started here leads a session of its own.

use std::collections::HashSet;
use std::time::Duration;

use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getsid};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

pub(crate) const MARK: &str = "SUNABA_AGENT_PROCESS";
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long the kernel may take to end what was killed.
const KILL_WAIT: Duration = Duration::from_millis(500);
/// Looks for what was started while others were being stopped; each finds the children of the one before.
const ROUNDS_MAX: usize = 16;

/// One process; the start time tells it from a later one with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    pid: i32,
    started: u64,
}

#[derive(Debug)]
pub(crate) struct Family {
    mark: Uuid,
    leader: Option<i32>,
    /// When the leader was started; nothing older is of this family.
    since: u64,
}

impl Family {
    pub(crate) fn new() -> Self {
        if let Err(error) = set_child_subreaper(true) {
            tracing::debug!(%error, "what leaves its parents cannot be followed");
        }
        Self { mark: Uuid::new_v4(), leader: None, since: u64::MAX }
    }

    /// What the leader's environment has to hold under [`MARK`].
    pub(crate) fn mark(&self) -> String {
        self.mark.to_string()
    }

    pub(crate) fn led_by(&mut self, pid: Option<u32>) {
        self.leader = pid.and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 1);
        self.since = self.leader.and_then(Seen::look).map_or(u64::MAX, |leader| leader.member.started);
    }

    /// The commands that run: everything outside of the leader's own group.
    pub(crate) fn commands(&self) -> HashSet<Member> {
        self.members()
            .into_iter()
            .filter(|(_, group)| Some(*group) != self.leader)
            .map(|(member, _)| member)
            .collect()
    }

    /// Waits until these are gone, and ends them at the deadline.
    pub(crate) async fn see_gone(&self, gone: &HashSet<Member>, deadline: Instant) {
        while gone.iter().any(Member::lives) && Instant::now() < deadline {
            sleep(POLL_INTERVAL).await;
        }
        for member in gone.iter().filter(|member| member.lives()) {
            member.signal(Signal::SIGKILL);
        }
        let last = Instant::now() + KILL_WAIT;
        while gone.iter().any(Member::lives) && Instant::now() < last {
            sleep(POLL_INTERVAL).await;
        }
        self.reap();
    }

    /// Signals the leader's group.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // The only failure is that nobody is left, which is what is wanted.
            let _ = killpg(Pid::from_raw(leader), signal);
        }
    }

    /// Ends everything that is left: stops it first, so that nothing is started while the rest is looked for.
    pub(crate) fn kill_all(&self) {
        let mut stopped = HashSet::new();
        for _ in 0..ROUNDS_MAX {
            let found: Vec<_> = self.members().into_iter().map(|(member, _)| member).collect();
            let new: Vec<_> = found.into_iter().filter(|member| stopped.insert(*member)).collect();
            if new.is_empty() {
                break;
            }
            new.iter().for_each(|member| member.signal(Signal::SIGSTOP));
        }
        stopped.iter().filter(|member| member.lives()).for_each(|member| member.signal(Signal::SIGKILL));
        self.reap();
    }

    /// Lets go of what became a child of ours and has ended.
    pub(crate) fn reap(&self) {
        let us = Us::now();
        for seen in Seen::all().filter(|seen| seen.is_dead && us.has_adopted(seen)) {
            let _ = waitpid(Pid::from_raw(seen.member.pid), Some(WaitPidFlag::WNOHANG));
        }
    }

    /// Every living process of this family, with its group.
    fn members(&self) -> Vec<(Member, i32)> {
        let seen: Vec<Seen> = Seen::all().filter(|seen| !seen.is_dead).collect();
        let us = Us::now();
        let mut found: HashSet<i32> =
            seen.iter().filter(|seen| self.knows(&us, seen)).map(|seen| seen.member.pid).collect();
        found.extend(self.leader_or_what_is_left_of_it());
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

    /// While it dies nobody can read its mark any more, and its children are not ours yet; one that is just becoming
    /// another program has no mark either, and is known by this parent alone.
    fn leader_or_what_is_left_of_it(&self) -> Option<i32> {
        let is_another =
            |leader: &i32| Seen::look(*leader).is_some_and(|seen| seen.member.started != self.since);
        self.leader.filter(|leader| !is_another(leader))
    }

    /// Whether it is of this family, whoever its parent is.
    fn knows(&self, us: &Us, seen: &Seen) -> bool {
        match seen.mark() {
            Some(mark) => mark == self.mark(),
            None => us.has_adopted(seen) && seen.member.started >= self.since,
        }
    }
}

/// This process.
struct Us {
    pid: i32,
    session: i32,
}

impl Us {
    fn now() -> Self {
        Self { pid: Pid::this().as_raw(), session: getsid(None).map_or(0, Pid::as_raw) }
    }

    /// Whether it is a child that we did not start.
    fn has_adopted(&self, seen: &Seen) -> bool {
        seen.parent == self.pid && seen.session != self.session
    }
}

impl Member {
    fn lives(&self) -> bool {
        Seen::look(self.pid).is_some_and(|seen| !seen.is_dead && seen.member == *self)
    }

    fn signal(&self, signal: Signal) {
        // It may have ended just now.
        let _ = kill(Pid::from_raw(self.pid), signal);
    }
}

/// A process as `/proc` shows it.
#[derive(Debug)]
struct Seen {
    member: Member,
    parent: i32,
    group: i32,
    session: i32,
    /// It only waits to be reaped.
    is_dead: bool,
}

impl Seen {
    fn all() -> impl Iterator<Item = Self> {
        std::fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(Self::look)
    }

    /// None when it is gone.
    fn look(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in brackets and may hold anything; what follows the last one is plain.
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        let is_dead = matches!(*fields.first()?, "Z" | "X");
        let number = |index: usize| fields.get(index)?.parse::<i32>().ok();
        let started = fields.get(19)?.parse().ok()?;
        let member = Member { pid, started };
        Some(Self { member, parent: number(1)?, group: number(2)?, session: number(3)?, is_dead })
    }

    /// The mark of the family that it was started by.
    fn mark(&self) -> Option<String> {
        // Of another user's process it cannot be read, and then it is none of ours.
        let environment = std::fs::read(format!("/proc/{}/environ", self.member.pid)).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        let mark =
            variables.find_map(|variable| variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="))?;
        Some(String::from_utf8_lossy(mark).into_owned())
    }
}
