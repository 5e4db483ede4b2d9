//! The first program inside a sandbox: keeps the bridge alive and runs the command.
//!
//! It owns the bridge's listening sockets, so a bridge that dies loses nobody's
//! place in the queue. On its standard input it has a line to the shim: it says
//! when it began and how the command ended, and is told to pass on SIGTERM, to
//! start more processes beside the command and to kill them.

mod execs;
mod init;
mod line;

use std::fs::File;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use sunaba_types::shim::{BRIDGE_ADDRESS, PROXY_ADDRESS};

use crate::bridge::{TUNNEL_CA_VARIABLE, TUNNEL_VARIABLE};

use self::execs::Execs;
pub use self::execs::hold;
use self::line::{Ear, Mouth};
pub(crate) use self::line::{Order, Word, send_order};

/// Between two starts of a bridge that keeps dying.
const BRIDGE_PAUSE: Duration = Duration::from_millis(50);
const THREAD_STACK_BYTES: usize = 256 * 1024;

/// Runs the command with a bridge beside it; its exit code is ours.
pub fn run(command: &[String]) -> anyhow::Result<ExitCode> {
    if init::is_first() {
        return init::run(command);
    }
    let own_program = std::env::current_exe().context("find this program")?;
    // What else runs here has the same user: it must not speak on this line or trace this process.
    prctl::set_dumpable(false).context("shut the guest's memory")?;
    let line = take_stdin().context("take the shim's line")?;
    let mouth = Arc::new(Mouth::new(line.try_clone()?));
    let listeners = Listeners { gateway: listen(BRIDGE_ADDRESS)?, proxy: listen(PROXY_ADDRESS)? };
    let bridge_program = own_program.clone();
    thread("bridge", move || keep_bridge(&bridge_program, &listeners))?;

    let (program, arguments) = command.split_first().context("no command")?;
    mouth.say(&Word::Began);
    let child = match Command::new(program).args(arguments).stdin(Stdio::null()).spawn() {
        Ok(child) => child,
        Err(error) => {
            mouth.say(&Word::Exited { code: Some(127), signal: None });
            return Err(error).with_context(|| format!("start {program}"));
        }
    };
    let execs = Execs::new(own_program, Arc::clone(&mouth));
    let status = follow(child, Ear::new(line), execs)?;
    mouth.say(&Word::Exited { code: status.code(), signal: status.signal() });
    // The bridge ends with the pid namespace, as everything else does.
    Ok(execs::exit_code(status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1)))
}

/// Takes the line and leaves nothing on standard input for the command.
fn take_stdin() -> anyhow::Result<File> {
    let stdin = std::io::stdin();
    let line = File::from(stdin.as_fd().try_clone_to_owned()?);
    nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
    Ok(line)
}

/// Waits for the command and does what the shim says meanwhile.
fn follow(mut child: Child, mut ear: Ear, execs: Execs) -> anyhow::Result<std::process::ExitStatus> {
    let living = Arc::new(Mutex::new(Some(execs::pid_of(&child)?)));
    let told = Arc::clone(&living);
    thread("orders", move || {
        while let Some((order, streams)) = ear.hear() {
            match (order, streams) {
                (Order::Terminate, _) => {
                    if let Some(pid) = *told.lock().unwrap_or_else(PoisonError::into_inner) {
                        let _ = kill(pid, Signal::SIGTERM);
                    }
                }
                (Order::Exec { id, command, env, cwd }, Some(streams)) => {
                    execs.start(id, &command, &env, cwd.as_deref(), streams);
                }
                (Order::Exec { .. }, None) => {}
                (Order::KillExec { id }, _) => execs.kill(id),
            }
        }
    })?;
    execs::wait_then(&mut child, || {
        *living.lock().unwrap_or_else(PoisonError::into_inner) = None;
    })
}

/// What the bridge serves, kept here for the next one.
#[derive(Debug)]
struct Listeners {
    /// Handed over as the bridge's standard input.
    gateway: OwnedFd,
    /// Handed over as the bridge's standard output.
    proxy: OwnedFd,
}

fn listen(address: &str) -> anyhow::Result<OwnedFd> {
    let listener = TcpListener::bind(address).with_context(|| format!("listen on {address}"))?;
    Ok(OwnedFd::from(listener))
}

fn keep_bridge(program: &std::path::Path, listeners: &Listeners) {
    loop {
        let (Ok(gateway), Ok(proxy)) = (listeners.gateway.try_clone(), listeners.proxy.try_clone()) else {
            return;
        };
        let started = Command::new(program)
            .arg("bridge")
            .env_clear()
            .envs(
                [TUNNEL_VARIABLE, TUNNEL_CA_VARIABLE]
                    .into_iter()
                    .filter_map(|name| Some((name, std::env::var_os(name)?))),
            )
            .stdin(Stdio::from(gateway))
            .stdout(Stdio::from(proxy))
            .spawn();
        match started {
            Ok(mut bridge) => {
                let ended = bridge.wait();
                tracing::warn!(?ended, "the bridge ended; starting it again");
            }
            Err(error) => tracing::warn!(%error, "cannot start the bridge"),
        }
        std::thread::sleep(BRIDGE_PAUSE);
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(THREAD_STACK_BYTES).spawn(work)?;
    Ok(())
}
