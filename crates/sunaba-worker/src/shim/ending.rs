//! Ends a sandbox for sure, and tells how it ended.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::bail;
use nix::sys::signal::Signal;
use sunaba_sandbox::cgroup::Groups;
use sunaba_sandbox::process;
use sunaba_types::shim::{Exit, Held};
use tokio::time::{Instant, sleep};

use crate::guest::Word;

const DEADLINE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(2);

/// Ends whatever is left of the sandbox and returns once nothing is.
///
/// The end of its init is the end of everything in its pid namespace; the namespace's number is not used,
/// because the kernel gives it to the next namespace as soon as this one is gone.
pub(super) async fn nothing_left(
    held: Option<&Held>,
    host_uid: Option<u32>,
    groups: &Groups,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let mut left = process::of_sandbox(None, host_uid);
        left.extend(groups.processes());
        left.retain(|pid| process::start_time(*pid).is_some());
        if let Some(held) = held.filter(|held| process::is_alive(held.init_pid, held.init_start_time)) {
            process::signal_if_alive(held.init_pid, held.init_start_time, Signal::SIGKILL);
            left.push(held.init_pid);
        }
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            bail!("processes {left:?} are left after {} s", DEADLINE.as_secs());
        }
        groups.kill();
        for pid in left {
            if let Some(started) = process::start_time(pid) {
                process::signal_if_alive(pid, started, Signal::SIGKILL);
            }
        }
        sleep(POLL).await;
    }
}

/// What is known when bubblewrap has ended.
#[derive(Debug)]
pub(super) struct Evidence {
    pub(super) status: ExitStatus,
    /// The guest's last word about its command.
    pub(super) word: Option<Word>,
    /// Whether the guest ever began.
    pub(super) began: bool,
    pub(super) killed_on_request: bool,
    /// Processes that the kernel killed for want of memory.
    pub(super) oom_kills: u64,
    /// The limit that the shim ended it for.
    pub(super) ended_for: Option<&'static str>,
    /// What was written, for an error message.
    pub(super) last_words: String,
}

/// Tells code and signal apart: bubblewrap itself only knows a number.
pub(super) fn judge(evidence: Evidence) -> Exit {
    let Evidence { status, word, began, killed_on_request, oom_kills, ended_for, last_words } = evidence;
    let (code, signal) = match (killed_on_request || ended_for.is_some(), word) {
        (true, _) => (None, Some(Signal::SIGKILL as i32)),
        (false, Some(Word::Exited { code, signal })) => (code, signal),
        (false, _) => match status.code() {
            Some(code) if code > 128 => (None, Some(code - 128)),
            code => (code, status.signal()),
        },
    };
    // In place of the kernel, the shim.
    let oom_kills = oom_kills.max(u64::from(ended_for == Some("memory")));
    let error = (!began && !killed_on_request && ended_for.is_none()).then(|| match last_words.is_empty() {
        true => format!("the sandbox did not begin ({status})"),
        false => last_words,
    });
    Exit { code, signal, oom_kills, ended_for: ended_for.map(str::to_owned), killed_on_request, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(raw: i32, word: Option<Word>) -> Evidence {
        let last_words = String::new();
        Evidence {
            status: ExitStatus::from_raw(raw),
            word,
            began: true,
            killed_on_request: false,
            oom_kills: 0,
            ended_for: None,
            last_words,
        }
    }

    #[test]
    fn a_code_above_128_is_not_a_signal_when_the_guest_says_so() {
        let exit = judge(evidence(137 << 8, Some(Word::Exited { code: Some(137), signal: None })));
        assert_eq!((exit.code, exit.signal), (Some(137), None));
        let exit = judge(evidence(137 << 8, Some(Word::Exited { code: None, signal: Some(9) })));
        assert_eq!((exit.code, exit.signal), (None, Some(9)));
        let exit = judge(evidence(137 << 8, None));
        assert_eq!((exit.code, exit.signal), (None, Some(9)), "no last word: it was cut off");
    }

    #[test]
    fn want_of_memory_a_limit_and_a_signal_are_told_apart() {
        let killed = Word::Exited { code: None, signal: Some(9) };
        let exit = judge(Evidence { oom_kills: 2, ..evidence(137 << 8, Some(killed.clone())) });
        assert_eq!((exit.signal, exit.oom_kills, exit.ended_for), (Some(9), 2, None));
        let exit = judge(Evidence { ended_for: Some("memory"), ..evidence(137 << 8, None) });
        assert_eq!((exit.signal, exit.oom_kills, exit.ended_for.as_deref()), (Some(9), 1, Some("memory")));
        let exit = judge(evidence(137 << 8, Some(killed)));
        assert_eq!((exit.signal, exit.oom_kills, exit.ended_for), (Some(9), 0, None));
    }

    #[test]
    fn what_never_began_is_an_error_with_the_last_words() {
        let exit = judge(Evidence { began: false, last_words: "bwrap: no".into(), ..evidence(1 << 8, None) });
        assert_eq!(exit.error.as_deref(), Some("bwrap: no"));
        assert_eq!(exit.code, Some(1));
    }
}
