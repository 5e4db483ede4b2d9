//! Starts bubblewrap and follows it to its end.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use nix::fcntl::OFlag;
use nix::sched::{sched_getaffinity, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, pipe2};
use serde::Deserialize;
use sunaba_sandbox::cgroup::Groups;
use sunaba_sandbox::process;
use sunaba_types::shim::{Exit, HELD_FILE, Held, Spec};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, timeout};

use super::control::{Order, refused};
use super::ending::{self, Evidence};
use super::execs::Line;
use super::meter::Meter;
use super::output::{self, Keeper};
use super::sampler::{self, Sampler};
use super::{Stage, write_whole};
use crate::guest::Word;

/// How long the last words may take after the last process is gone.
const DRAIN: Duration = Duration::from_secs(1);
const INFO_MAX_BYTES: usize = 16 * 1024;

/// What bubblewrap tells about itself.
#[derive(Debug, Deserialize)]
struct Info {
    #[serde(rename = "child-pid")]
    child_pid: i32,
    #[serde(rename = "pid-namespace", default)]
    pid_namespace: u64,
}

/// Where bubblewrap tells it, in several writes: what has come is kept from one look to the next.
#[derive(Debug)]
struct InfoPipe {
    pipe: Receiver,
    text: Vec<u8>,
}

/// A started bubblewrap and the lines to it.
#[derive(Debug)]
struct Running {
    child: Child,
    info: Option<InfoPipe>,
    words: Lines<BufReader<OwnedReadHalf>>,
    line: Line,
    output: Keeper,
}

/// What has been learned so far.
#[derive(Debug, Default)]
struct Known {
    held: Option<Held>,
    began: bool,
    word: Option<Word>,
    killed_on_request: bool,
    /// The limit that it was ended for.
    ended_for: Option<&'static str>,
}

/// Runs the sandbox to its end.
pub(super) async fn run(
    dir: &Path,
    spec: &Spec,
    stage: &watch::Sender<Stage>,
    meter: &Arc<Meter>,
    mut orders: mpsc::Receiver<Order>,
) -> anyhow::Result<Exit> {
    let mut sampler = Sampler::new(&spec.limits, meter, &spec.sandbox_id);
    let mut running = start_inside(dir, spec, meter, &sampler)?;
    let mut known = Known::default();
    let mut told = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut ticks = tokio::time::interval(sampler::EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let status = loop {
        tokio::select! {
            status = running.child.wait() => break status.context("wait for bubblewrap")?,
            info = read_info(&mut running.info), if running.info.is_some() => {
                running.info = None;
                refuse_own_namespace(info.as_ref())?;
                known.held = info;
                if known.killed_on_request {
                    known.kill(&meter.groups);
                }
                tell_running(&known, stage)?;
            }
            Ok(Some(line)) = running.words.next_line() => {
                known.hear(&line, &mut running.line);
                tell_running(&known, stage)?;
            }
            Some(order) = orders.recv() => known.obey(order, &mut running.line, &meter.groups).await,
            _ = ticks.tick(), if sampler.is_needed() && known.began => {
                known.sample(&mut sampler, meter).await;
            }
            _ = told.recv() => known.kill_on_request(&meter.groups),
        }
    };
    orders.close();
    finish(running, known, spec, stage, meter, status).await
}

/// Starts bubblewrap's launcher inside the sandbox's groups: this process goes in, starts it, and goes out
/// again, so that there is no moment in which the launcher is outside.
fn start_inside(dir: &Path, spec: &Spec, meter: &Meter, sampler: &Sampler) -> anyhow::Result<Running> {
    let groups = &meter.groups;
    groups.make(&spec.limits).context("set the sandbox's limits")?;
    let before = sched_getaffinity(Pid::from_raw(0)).context("look at the cores")?;
    groups.enter().context("enter the sandbox's groups")?;
    if let Some(cores) = sampler.cores() {
        sched_setaffinity(Pid::from_raw(0), cores).context("hold the sandbox to its cores")?;
    }
    let started = start(dir);
    if sampler.cores().is_some() {
        sched_setaffinity(Pid::from_raw(0), &before).context("go back to all cores")?;
    }
    groups.leave().context("leave the sandbox's groups")?;
    started
}

async fn finish(
    mut running: Running,
    mut known: Known,
    spec: &Spec,
    stage: &watch::Sender<Stage>,
    meter: &Meter,
    status: std::process::ExitStatus,
) -> anyhow::Result<Exit> {
    if running.info.is_some() {
        known.held = timeout(DRAIN, read_info(&mut running.info)).await.ok().flatten();
    }
    ending::nothing_left(known.held.as_ref(), spec.host_uid, &meter.groups).await?;
    while let Ok(Ok(Some(line))) = timeout(DRAIN, running.words.next_line()).await {
        known.hear(&line, &mut running.line);
    }
    tell_running(&known, stage)?;
    running.output.finish(DRAIN).await;
    Ok(ending::judge(Evidence {
        status,
        word: known.word,
        began: known.began,
        killed_on_request: known.killed_on_request,
        oom_kills: meter.groups.oom_kills(),
        ended_for: known.ended_for,
        last_words: output::tail(),
    }))
}

fn start(dir: &Path) -> anyhow::Result<Running> {
    let (ours, guests) = std::os::unix::net::UnixStream::pair().context("make the guest's line")?;
    let (output_reader, output_writer) = pipe2(OFlag::O_CLOEXEC).context("make the output pipe")?;
    // The writing end goes on to bubblewrap by its number, so it must survive the exec; this is
    // the only program that is started here.
    let (info_reader, info_writer) = pipe2(OFlag::empty()).context("make the info pipe")?;
    let child = Command::new(std::env::current_exe().context("find this program")?)
        .arg("launch")
        .arg("--dir")
        .arg(dir)
        .args(["--info-fd", &info_writer.as_raw_fd().to_string()])
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(guests)))
        .stdout(output_writer.try_clone()?)
        .stderr(output_writer)
        .kill_on_drop(true)
        .spawn()
        .context("start bubblewrap's launcher")?;
    drop(info_writer);
    ours.set_nonblocking(true)?;
    let (words, to_guest) = UnixStream::from_std(ours)?.into_split();
    Ok(Running {
        child,
        info: Some(InfoPipe { pipe: Receiver::from_owned_fd(info_reader)?, text: Vec::new() }),
        words: BufReader::new(words).lines(),
        line: Line::new(to_guest),
        output: Keeper::start(output_reader)?,
    })
}

/// A sandbox without a pid namespace of its own is none: ending it would end others.
fn refuse_own_namespace(held: Option<&Held>) -> anyhow::Result<()> {
    if let Some(held) = held {
        ensure!(
            process::is_foreign_namespace(held.pid_namespace),
            "bubblewrap made no pid namespace of the sandbox's own"
        );
    }
    Ok(())
}

/// Reads who the sandbox's first process is; `None` when bubblewrap ended before it said so.
async fn read_info(info: &mut Option<InfoPipe>) -> Option<Held> {
    let InfoPipe { pipe, text } = info.as_mut()?;
    let mut part = [0; 1024];
    // May be given up at any read and asked again: nothing read is lost.
    loop {
        match pipe.read(&mut part).await {
            Ok(0) => break,
            Ok(length) if text.len() + length <= INFO_MAX_BYTES => text.extend_from_slice(&part[..length]),
            Ok(_) | Err(_) => return None,
        }
    }
    let info: Info = serde_json::from_slice(text).ok()?;
    let own = i32::try_from(std::process::id()).ok()?;
    Some(Held {
        shim_pid: own,
        shim_start_time: process::start_time(own)?,
        init_pid: info.child_pid,
        init_start_time: process::start_time(info.child_pid).unwrap_or_default(),
        pid_namespace: process::pid_namespace(info.child_pid).unwrap_or(info.pid_namespace),
    })
}

impl Known {
    /// Takes the guest's word. Only its first says anything about the end.
    fn hear(&mut self, text: &str, line: &mut Line) {
        match serde_json::from_str(text) {
            Ok(Word::Began) => self.began = true,
            Ok(word @ Word::Exited { .. }) if self.word.is_none() => self.word = Some(word),
            Ok(word @ Word::ExecExited { .. }) => line.hear(word),
            Ok(Word::Exited { .. }) | Err(_) => {}
        }
    }

    async fn obey(&mut self, order: Order, line: &mut Line, groups: &Groups) {
        match order {
            Order::Kill => self.kill_on_request(groups),
            Order::Terminate => line.terminate().await,
            Order::Exec(exec) if self.began && self.word.is_none() => line.start(exec).await,
            Order::Exec(exec) => {
                let _ = exec.ended.send(refused("the sandbox does not run".to_owned()));
            }
            Order::EndExec(id) => line.end(id).await,
        }
    }

    /// Only once the guest has begun: until then its root is still the host's.
    async fn sample(&mut self, sampler: &mut Sampler, meter: &Arc<Meter>) {
        let Some(held) = self.held.clone().filter(|_| self.ended_for.is_none()) else { return };
        if let Some(limit) = sampler.look(&held, meter).await {
            self.ended_for = Some(limit);
            self.kill(&meter.groups);
        }
    }

    fn kill_on_request(&mut self, groups: &Groups) {
        self.killed_on_request = true;
        self.kill(groups);
    }

    /// Kills everything in the groups, and the pid namespace's init. Without groups there is nothing to kill
    /// for sure before that one is known: killed in the middle of its start, bubblewrap may leave a process
    /// behind that nobody knows. So the order waits for the moment it is.
    fn kill(&self, groups: &Groups) {
        groups.kill();
        if let Some(held) = &self.held {
            process::signal_if_alive(held.init_pid, held.init_start_time, Signal::SIGKILL);
        }
    }
}

/// Once both bubblewrap and the guest have spoken, the sandbox runs.
fn tell_running(known: &Known, stage: &watch::Sender<Stage>) -> anyhow::Result<()> {
    let (Some(held), true) = (&known.held, known.began) else { return Ok(()) };
    if matches!(*stage.borrow(), Stage::Starting) {
        write_whole(HELD_FILE, held).context("record who holds the sandbox")?;
        stage.send_replace(Stage::Running(held.clone()));
    }
    Ok(())
}
