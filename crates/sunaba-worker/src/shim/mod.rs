//! Holds one local sandbox.
//!
//! The shim leaves the server's session, is bubblewrap's parent, keeps the
//! sandbox's output in a bounded file, records how it ended and answers on a
//! control socket. If it dies, the sandbox dies with it; if the server dies,
//! nothing happens here. It lives in control groups of its own, outside the
//! server's and outside the sandbox's limits, and keeps by looking what no
//! controller keeps.

mod control;
mod ending;
mod execs;
mod meter;
mod output;
mod sampler;
mod sandbox;
mod segments;

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use nix::fcntl::{Flock, FlockArg};
use serde::Serialize;
use sunaba_sandbox::GROUPS_FILE;
use sunaba_sandbox::cgroup::Groups;
use sunaba_types::shim::{CONTROL_SOCKET, EXIT_FILE, Exit, Held, LOCK_FILE, SPEC_FILE, Spec};
use tokio::sync::{mpsc, watch};

use self::control::{Desk, Order};
use self::meter::Meter;

pub use self::segments::hand_over as hand_over_tables;

/// How long clients that wait for the end may take to read it.
const FAREWELL: Duration = Duration::from_secs(2);

/// Where the sandbox is, as clients are told.
#[derive(Debug, Clone)]
enum Stage {
    Starting,
    Running(Held),
    Over(Exit),
}

/// Holds the sandbox of this directory until it is over.
pub fn run(dir: &Path) -> anyhow::Result<()> {
    // Already a session leader when started by hand; that is as good.
    let _ = nix::unistd::setsid();
    std::env::set_current_dir(dir).with_context(|| format!("enter {}", dir.display()))?;
    let _lock = lock()?;
    if Path::new(EXIT_FILE).exists() {
        bail!("this sandbox has already run");
    }
    // Before there is a second thread, which would stay in the namespace that is left here.
    sunaba_sandbox::disk::show_own(dir).context("take the sandbox's disk")?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("make the runtime")?
        .block_on(hold(dir))
}

/// The lock says that a shim lives; a second one gives way.
fn lock() -> anyhow::Result<Flock<File>> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(LOCK_FILE)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_| anyhow::anyhow!("another shim holds this sandbox"))
}

async fn hold(dir: &Path) -> anyhow::Result<()> {
    let spec: Spec = serde_json::from_slice(&std::fs::read(SPEC_FILE).context("read the spec")?)
        .context("understand the spec")?;
    let meter = Arc::new(Meter::new(groups(&spec)?));
    let (stage, watching) = watch::channel(Stage::Starting);
    // Full when clients ask faster than one sandbox can be killed: they wait.
    let (orders, incoming) = mpsc::channel::<Order>(8);
    let desk = Desk { orders, stage: watching, meter: Arc::clone(&meter), next_exec: Arc::default() };
    let control = control::serve(desk)?;

    let exit = match sandbox::run(dir, &spec, &stage, &meter, incoming).await {
        Ok(exit) => exit,
        Err(error) => Exit {
            code: None,
            signal: None,
            oom_kills: 0,
            ended_for: None,
            killed_on_request: false,
            error: Some(format!("{error:#}")),
        },
    };
    // What cannot be removed now is removed with the sandbox.
    let _ = meter.groups.remove();
    write_whole(EXIT_FILE, &exit).context("record the exit")?;
    stage.send_replace(Stage::Over(exit));
    control.finish(FAREWELL).await;
    let _ = std::fs::remove_file(CONTROL_SOCKET);
    Ok(())
}

/// The groups that the server named; none where it found no use for any.
fn groups(spec: &Spec) -> anyhow::Result<Groups> {
    let groups: Groups = match std::fs::read(GROUPS_FILE) {
        Ok(bytes) => serde_json::from_slice(&bytes).context("understand the groups")?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Groups::new(Vec::new(), "sunaba-none", &spec.sandbox_id)
        }
        Err(error) => return Err(error).context("read the groups"),
    };
    ensure!(groups.belong_to(&spec.sandbox_id), "the groups are not this sandbox's");
    Ok(groups)
}

/// Writes a file under another name and renames it: a reader sees all of it or nothing.
fn write_whole<T: Serialize>(name: &str, value: &T) -> anyhow::Result<()> {
    let temporary = format!(".{name}.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    std::fs::rename(&temporary, name)?;
    Ok(())
}
