//! Keeps the limits that no controller keeps: looks several times a second and ends what passed one.

use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use sunaba_sandbox::cgroup::Controller;
use sunaba_sandbox::disk::{Judge, Measured};
use sunaba_types::shim::{Held, Limits};
use tokio::task::JoinHandle;

use super::meter::{self, Meter};

/// Between two looks at processes.
pub(super) const EVERY: Duration = Duration::from_millis(200);
/// Between two walks over the files, at least; a long walk is followed by a longer pause.
const DISK_EVERY: Duration = Duration::from_millis(500);
const DISK_PAUSE_FACTOR: u32 = 10;
/// Between two counts of open files.
const FILES_EVERY: Duration = Duration::from_millis(500);
/// The part of the host's table of open files that one sandbox may fill.
const FILES_SHARE: u64 = 8;
/// Most open files of one sandbox where no controller counts the memory that they take.
const FILES_MAX: u64 = 1 << 20;
/// A table of this size is none: memory ends first, and a controller counts that.
const FILES_UNBOUNDED: u64 = 1 << 32;

/// What is left to be kept by looking.
#[derive(Debug)]
pub(super) struct Sampler {
    memory_bytes: Option<u64>,
    pids: Option<u64>,
    disk_bytes: Option<u64>,
    /// Not asked for by anybody: the host's table of open files is one for all.
    open_files: Option<u64>,
    next_count: Instant,
    cores: Option<CpuSet>,
    walk: Option<JoinHandle<(std::io::Result<Measured>, Duration)>>,
    next_walk: Instant,
    judge: Judge,
}

impl Sampler {
    pub(super) fn new(limits: &Limits, meter: &Meter, sandbox_id: &str) -> Self {
        let by_looking = |controller| !meter.groups.has(controller);
        Self {
            memory_bytes: limits.memory_bytes.filter(|_| by_looking(Controller::Memory)),
            pids: limits.pids.map(u64::from).filter(|_| by_looking(Controller::Pids)),
            disk_bytes: limits.disk_bytes.filter(|_| !meter.own_disk),
            open_files: open_files(host_files(), by_looking(Controller::Memory).then_some(FILES_MAX)),
            next_count: Instant::now(),
            cores: limits
                .cpu_millis
                .filter(|_| by_looking(Controller::Cpu))
                .and_then(|millis| cores(millis, sandbox_id)),
            walk: None,
            next_walk: Instant::now(),
            judge: Judge::default(),
        }
    }

    /// The cores that the sandbox is held to; none when all, or when a controller counts its time.
    pub(super) fn cores(&self) -> Option<&CpuSet> {
        self.cores.as_ref()
    }

    /// Whether there is anything to look at.
    pub(super) fn is_needed(&self) -> bool {
        self.memory_bytes.is_some()
            || self.pids.is_some()
            || self.disk_bytes.is_some()
            || self.open_files.is_some()
            || self.cores.is_some()
    }

    /// Looks once; the limit that was passed.
    pub(super) async fn look(&mut self, held: &Held, meter: &std::sync::Arc<Meter>) -> Option<&'static str> {
        if self.memory_bytes.is_some() && meter.segments.is_wanted() {
            let (meter, held) = (std::sync::Arc::clone(meter), held.clone());
            // What it opens is seen by the looks after it.
            drop(tokio::task::spawn_blocking(move || meter.segments.open(&held)));
        }
        if self.memory_bytes.is_some() || self.pids.is_some() {
            let used = meter.processes(held);
            if self.memory_bytes.is_some_and(|most| used.memory_bytes > most) {
                return Some("memory");
            }
            if self.pids.is_some_and(|most| used.pids > most) {
                return Some("pids");
            }
        }
        if self.has_too_many_files(held, meter) {
            return Some("open files");
        }
        if let Some(cores) = &self.cores {
            hold_to(cores, held);
        }
        let most = self.disk_bytes?;
        let measured = self.measured(held, meter).await?;
        self.judge.is_too_much(&measured, most).then_some("disk")
    }

    fn has_too_many_files(&mut self, held: &Held, meter: &Meter) -> bool {
        let Some(most) = self.open_files.filter(|_| Instant::now() >= self.next_count) else { return false };
        self.next_count = Instant::now() + FILES_EVERY;
        meter.open_files(held) > most
    }

    /// What the last walk saw, once, when it is over.
    async fn measured(
        &mut self,
        held: &Held,
        meter: &std::sync::Arc<Meter>,
    ) -> Option<std::io::Result<Measured>> {
        if self.walk.is_none() && Instant::now() >= self.next_walk {
            let (meter, held) = (std::sync::Arc::clone(meter), held.clone());
            self.walk = Some(tokio::task::spawn_blocking(move || {
                let began = Instant::now();
                (meter.disk_bytes(&held), began.elapsed())
            }));
        }
        let walk = self.walk.take_if(|walk| walk.is_finished())?;
        let (measured, took) =
            walk.await.unwrap_or_else(|broken| (Err(std::io::Error::other(broken)), Duration::ZERO));
        self.next_walk = Instant::now() + DISK_EVERY.max(took * DISK_PAUSE_FACTOR);
        Some(measured)
    }
}

/// How many files this host can have open in all.
fn host_files() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/fs/file-max").unwrap_or_default();
    text.trim().parse().unwrap_or(u64::MAX)
}

/// How many of them one sandbox may have; none where memory is what bounds them.
fn open_files(host: u64, most: Option<u64>) -> Option<u64> {
    let share = (host < FILES_UNBOUNDED).then_some(host / FILES_SHARE);
    share.into_iter().chain(most).min()
}

/// As many of the allowed cores as the limit rounds up to, beginning at one that differs between sandboxes.
fn cores(millis: u32, sandbox_id: &str) -> Option<CpuSet> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let all: Vec<usize> =
        (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false)).collect();
    let wanted = usize::try_from(millis.div_ceil(1000)).ok()?;
    if wanted >= all.len() || wanted == 0 {
        return None;
    }
    let first =
        sandbox_id.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
    let mut chosen = CpuSet::new();
    for step in 0..wanted {
        chosen.set(all[(first.wrapping_add(step)) % all.len()]).ok()?;
    }
    Some(chosen)
}

/// Puts back whoever moved to other cores.
fn hold_to(cores: &CpuSet, held: &Held) {
    for pid in meter::members(held) {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let Some(thread) = thread.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let thread = Pid::from_raw(thread);
            if sched_getaffinity(thread).is_ok_and(|now| now != *cores) {
                // One that ended meanwhile is no error.
                let _ = sched_setaffinity(thread, cores);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_are_bounded_where_nothing_else_bounds_them() {
        assert_eq!(open_files(800_000, None), Some(100_000));
        assert_eq!(open_files(800_000, Some(FILES_MAX)), Some(100_000));
        assert_eq!(open_files(1 << 30, Some(FILES_MAX)), Some(FILES_MAX));
        assert_eq!(open_files(u64::MAX >> 1, Some(FILES_MAX)), Some(FILES_MAX));
        assert_eq!(open_files(u64::MAX >> 1, None), None);
    }

    #[test]
    fn a_limit_is_rounded_up_to_whole_cores() {
        let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let all = (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap()).count();
        let count = |set: CpuSet| (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap()).count();
        if all < 2 {
            assert!(cores(500, "a").is_none(), "there is only one core: it holds by itself");
            return;
        }
        assert_eq!(count(cores(500, "a").unwrap()), 1);
        assert_eq!(count(cores(1000, "b").unwrap()), 1);
        assert!(cores(u32::try_from(all).unwrap() * 1000, "c").is_none(), "all cores are no limit");
    }
}
