//! More processes beside the command, each held by a process of its own.
//!
//! The holder ([`hold`]) is the reaper of everything its command starts, also of
//! what leaves its group and its session: as long as it stands, the tree below it is
//! whole, and killing the tree leaves nothing out.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use sunaba_sandbox::process;

use super::line::{Mouth, STREAMS, Word};
use super::thread;

/// Such processes at once.
const EXECS_MAX: usize = 64;
/// How long the killing of one may take before its holder goes too.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
const KILL_PAUSE: Duration = Duration::from_millis(2);
/// What a shell answers for a program that cannot be started.
const NOT_STARTED: i32 = 127;

/// What runs beside the command.
#[derive(Debug, Clone)]
pub(super) struct Execs {
    own_program: PathBuf,
    mouth: Arc<Mouth>,
    /// Holders that are not reaped yet: each pid here is surely that holder's.
    holders: Arc<Mutex<HashMap<u64, Pid>>>,
}

impl Execs {
    pub(super) fn new(own_program: PathBuf, mouth: Arc<Mouth>) -> Self {
        Self { own_program, mouth, holders: Arc::default() }
    }

    fn holders(&self) -> MutexGuard<'_, HashMap<u64, Pid>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts one; how it ended is said when it did.
    pub(super) fn start(
        &self,
        id: u64,
        command: &[String],
        env: &BTreeMap<String, String>,
        cwd: Option<&str>,
        streams: [OwnedFd; STREAMS],
    ) {
        let result = self.spawn(id, command, env, cwd, streams).and_then(|holder| {
            let execs = self.clone();
            thread("exec", move || execs.follow(id, holder))
        });
        if let Err(error) = result {
            self.holders().remove(&id);
            let error = Some(format!("{error:#}"));
            self.mouth.say(&Word::ExecExited { id, code: None, signal: None, error });
        }
    }

    fn spawn(
        &self,
        id: u64,
        command: &[String],
        env: &BTreeMap<String, String>,
        cwd: Option<&str>,
        [input, output, errors]: [OwnedFd; STREAMS],
    ) -> anyhow::Result<Child> {
        let mut holders = self.holders();
        anyhow::ensure!(holders.len() < EXECS_MAX, "{EXECS_MAX} processes were started beside the command");
        anyhow::ensure!(!holders.contains_key(&id), "exec {id} runs already");
        let mut holder = Command::new(&self.own_program);
        holder.args(["hold", "--"]).args(command).envs(env);
        holder.stdin(Stdio::from(input)).stdout(Stdio::from(output)).stderr(Stdio::from(errors));
        if let Some(cwd) = cwd {
            holder.current_dir(cwd);
        }
        let holder = holder.spawn().with_context(|| match cwd {
            Some(cwd) => format!("start a process in {cwd}"),
            None => "start a process".to_owned(),
        })?;
        holders.insert(id, pid_of(&holder)?);
        Ok(holder)
    }

    fn follow(&self, id: u64, mut holder: Child) {
        let status = wait_then(&mut holder, || {
            self.holders().remove(&id);
        });
        let word = match status {
            Ok(status) => Word::ExecExited { id, code: status.code(), signal: status.signal(), error: None },
            Err(error) => {
                Word::ExecExited { id, code: None, signal: None, error: Some(format!("{error:#}")) }
            }
        };
        self.mouth.say(&word);
    }

    /// Kills one with everything it started; what is over already is none of its business.
    pub(super) fn kill(&self, id: u64) {
        // The lock keeps the holder from being reaped meanwhile, so its pid stays its own.
        let holders = self.holders();
        let Some(holder) = holders.get(&id).copied() else { return };
        // Stopped it cannot end, and as long as it is there orphans come to it and not to the sandbox's init.
        let _ = kill(holder, Signal::SIGSTOP);
        kill_below(holder);
        let _ = kill(holder, Signal::SIGKILL);
    }
}

/// Waits for a child and calls `before` while its pid is still its own.
pub(super) fn wait_then(child: &mut Child, before: impl FnOnce()) -> anyhow::Result<ExitStatus> {
    let pid = pid_of(child)?;
    let ended = || waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
    while let Err(error) = ended() {
        anyhow::ensure!(error == nix::errno::Errno::EINTR, "wait for a process: {error}");
    }
    before();
    child.wait().context("wait for a process")
}

pub(super) fn pid_of(child: &Child) -> anyhow::Result<Pid> {
    Ok(Pid::from_raw(i32::try_from(child.id())?))
}

/// Runs one command as the head of everything it starts, and ends as it ended; after `within`, if there is such
/// a bound, it is killed with everything it started.
pub fn hold(command: &[String], within: Option<Duration>) -> anyhow::Result<ExitCode> {
    match nix::unistd::setsid() {
        // A container's daemon has put it at the head of a session already.
        Ok(_) | Err(nix::errno::Errno::EPERM) => {}
        Err(error) => return Err(error).context("leave the session"),
    }
    prctl::set_child_subreaper(true).context("take in orphans")?;
    let (program, arguments) = command.split_first().context("no command")?;
    let mut child = match Command::new(program).args(arguments).spawn() {
        Ok(child) => child,
        Err(error) => {
            // Whoever asked may not want to know.
            let _ = writeln!(std::io::stderr(), "cannot start {program}: {error}");
            return Ok(exit_code(NOT_STARTED));
        }
    };
    let over = Arc::new(Mutex::new(()));
    if let Some(within) = within {
        let over = Arc::clone(&over);
        thread("time", move || end_in_time(within, &over))?;
    }
    let status = child.wait().context("wait for the command")?;
    // Once the time is over the other thread ends this process, after everything below it.
    let _ended_first = over.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(signal) = status.signal().and_then(|signal| Signal::try_from(signal).ok()) {
        // Ends the same way, so that the guest can tell a signal from a code.
        let _ = kill(Pid::this(), signal);
    }
    Ok(exit_code(status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1)))
}

/// Waits, and then kills everything below this process and the process itself.
fn end_in_time(within: Duration, over: &Mutex<()>) {
    std::thread::sleep(within);
    let _over = over.lock().unwrap_or_else(PoisonError::into_inner);
    kill_below(Pid::this());
    let _ = kill(Pid::this(), Signal::SIGKILL);
}

/// Kills everything below a process that takes in orphans and does not end meanwhile.
fn kill_below(holder: Pid) {
    let deadline = Instant::now() + KILL_PATIENCE;
    loop {
        let below = process::descendants(holder.as_raw());
        if below.is_empty() || Instant::now() >= deadline {
            return;
        }
        for pid in below {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        std::thread::sleep(KILL_PAUSE);
    }
}

pub(super) fn exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
