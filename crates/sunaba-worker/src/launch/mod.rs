//! Turns into bubblewrap with as little as possible.
//!
//! As root it first makes the sandbox's directories reachable for the sandbox's
//! own host user (in a mount namespace of its own) and then becomes that user,
//! *before* bubblewrap: bubblewrap's own `--uid` as root still maps to host root.
//! It refuses to go on as root. It has one thread and starts no other process.

mod arguments;
mod etc;
mod layers;
mod root;
mod stage;
mod walls;

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, execve, getppid, getresuid, setgroups, setresgid, setresuid};
use sunaba_types::shim::{ETC_DIR, SPEC_FILE, Spec};

use self::arguments::{Files, Root, Shown};
use self::root::MountPoint;
use self::stage::Maker;

/// Most processes and threads of one sandbox, where it has a host user of its own.
const PROCESSES_MAX: u64 = 4096;
/// Open files of one process: what a login on a Linux desktop has. Programs are written for it: who waits with
/// `select` breaks above it, who closes every descriptor it might have takes long above it, and who needs more
/// (node, Java, Go, databases) raises it by itself.
const OPEN_FILES_USUAL: u64 = 1024;
/// How far it can be raised. What all processes have open together is the shim's to watch.
const OPEN_FILES_MAX: u64 = 65_536;

/// Becomes bubblewrap; returns only an error.
pub fn run(dir: &Path, info_fd: i32) -> anyhow::Result<Infallible> {
    let parent = getppid();
    let spec: Spec = serde_json::from_slice(&std::fs::read(dir.join(SPEC_FILE)).context("read the spec")?)
        .context("understand the spec")?;
    let host_user = host_user(&spec, nix::unistd::geteuid())?;
    let bubblewrap = sunaba_sandbox::find_bubblewrap()
        .context("bubblewrap is not installed; install the package `bubblewrap`")?;
    let mut shown = make_etc(&spec, &dir.join(ETC_DIR))?;
    let mut root_fs = spec.root_fs.clone();
    make_mounts(&mut shown, root_fs.as_mut(), host_user)?;
    let steps = match &root_fs {
        Some(path) => root::plan(Path::new(path), &mount_points(&shown))?,
        None => Vec::new(),
    };
    if let Some(user) = host_user {
        become_user(user)?;
    }
    prctl::set_no_new_privs().context("give up gaining privileges")?;
    limit_resources(host_user)?;
    die_with(parent)?;

    let filter = spec.seccomp.then(filter_file).transpose()?;
    let files = Files { info: info_fd, filter: filter.as_ref().map(|file| file.as_raw_fd()) };
    let root = match &root_fs {
        Some(path) => Root::Directory { path, steps: &steps },
        None => Root::System,
    };
    let options = options_file(&arguments::options(&spec, &root, &shown, files))?;
    let mut command = vec!["bwrap".to_owned(), "--args".to_owned(), options.as_raw_fd().to_string()];
    command.extend(arguments::command(&spec));
    let command = command.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>()?;
    let program = CString::new(bubblewrap.into_os_string().into_encoded_bytes())?;
    // The environment stays empty: what the sandbox gets is among the options, and nothing in it
    // can change how bubblewrap itself is loaded.
    execve(&program, &command, &[] as &[CString]).context("start bubblewrap")
}

/// Makes what appears in `/etc` and lists everything that is shown inside.
fn make_etc(spec: &Spec, etc: &Path) -> anyhow::Result<Vec<Shown>> {
    let host_name = arguments::host_name(&spec.sandbox_id);
    let made = match &spec.root_fs {
        Some(root) => {
            root::check(root)?;
            etc::make_over(etc, &host_name, root).context("make the files in /etc")?;
            let over = etc::OVER_ROOT.iter();
            over.map(|(name, target)| Ok((arguments::text(&etc.join(name))?, *target)))
                .collect::<anyhow::Result<Vec<_>>>()?
        }
        None => {
            etc::make(etc, &host_name).context("make /etc")?;
            vec![(arguments::text(etc)?, "/etc")]
        }
    };
    arguments::shown(spec, &made)
}

/// Makes the mounts that have to be there before bubblewrap, where there are any.
fn make_mounts(
    shown: &mut [Shown],
    root_fs: Option<&mut String>,
    host_user: Option<Uid>,
) -> anyhow::Result<()> {
    let layered = shown.iter().any(|one| !one.layers.is_empty());
    let maker = match host_user {
        Some(owner) => Maker::Root { owner },
        None if layered => Maker::User,
        None => return Ok(()),
    };
    match (stage::enter(maker), maker) {
        (Ok(()), _) => stage::make_reachable(shown, root_fs, maker),
        (Err(error), Maker::User) => {
            tracing::warn!("layers are copied, because they cannot be mounted: {error:#}");
            shown.iter().try_for_each(|one| layers::copy_all(one, None))
        }
        (Err(error), Maker::Root { .. }) => Err(error),
    }
    .context("make the sandbox's directories reachable")
}

fn mount_points(shown: &[Shown]) -> Vec<MountPoint<'_>> {
    shown
        .iter()
        .map(|one| MountPoint { path: &one.target, is_directory: Path::new(&one.source).is_dir() })
        .collect()
}

/// The user to become: one of its own when started as root, none otherwise.
fn host_user(spec: &Spec, effective: Uid) -> anyhow::Result<Option<Uid>> {
    match (effective.is_root(), spec.host_uid) {
        (true, Some(uid)) if uid != 0 => Ok(Some(Uid::from_raw(uid))),
        (true, _) => bail!("refused: a sandbox never runs as root, and the spec names no other host user"),
        (false, None) => Ok(None),
        (false, Some(uid)) if uid == effective.as_raw() => Ok(None),
        (false, Some(uid)) => bail!("the spec names host user {uid}, which only root can become"),
    }
}

fn become_user(user: Uid) -> anyhow::Result<()> {
    let group = Gid::from_raw(user.as_raw());
    setgroups(&[]).context("leave every group")?;
    setresgid(group, group, group).context("change the group")?;
    setresuid(user, user, user).context("change the user")?;
    let now = getresuid().context("look at the user")?;
    ensure!(
        now.real == user && now.effective == user && now.saved == user,
        "still not host user {user} after changing to it"
    );
    Ok(())
}

fn limit_resources(host_user: Option<Uid>) -> anyhow::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0).context("forbid core files")?;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("read the limit on open files")?;
    let hard = hard.min(OPEN_FILES_MAX);
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(OPEN_FILES_USUAL), hard).context("limit open files")?;
    if host_user.is_some() {
        // Counted per host user: where the user is shared, this would count strangers.
        let (_, hard) = getrlimit(Resource::RLIMIT_NPROC).context("read the process limit")?;
        let limit = hard.min(PROCESSES_MAX);
        setrlimit(Resource::RLIMIT_NPROC, limit, limit).context("limit processes")?;
    }
    Ok(())
}

/// Asks to die with the shim, and makes sure that it did not die before the question.
fn die_with(parent: nix::unistd::Pid) -> anyhow::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL).context("ask to die with the shim")?;
    ensure!(getppid() == parent, "the shim is gone");
    Ok(())
}

/// Keeps the options out of the process list: they hold the sandbox's token.
fn options_file(options: &[String]) -> anyhow::Result<File> {
    let mut bytes = Vec::new();
    for option in options {
        ensure!(!option.contains('\0'), "an option holds a NUL character");
        bytes.extend_from_slice(option.as_bytes());
        bytes.push(0);
    }
    memory_file(c"options", &bytes).context("make the options")
}

fn filter_file() -> anyhow::Result<File> {
    let filter = sunaba_sandbox::seccomp::filter().context("make the filter of system calls")?;
    memory_file(c"filter", &filter).context("make the filter of system calls")
}

/// A file that bubblewrap inherits and reads.
fn memory_file(name: &std::ffi::CStr, content: &[u8]) -> anyhow::Result<File> {
    // Without close-on-exec: it goes on by its number.
    let mut file = File::from(memfd_create(name, MFdFlags::empty())?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn spec(host_uid: Option<u32>) -> Spec {
        Spec {
            sandbox_id: "sbx_1".to_owned(),
            host_uid,
            binds: Vec::new(),
            worker_program: "/w".to_owned(),
            env: std::collections::BTreeMap::new(),
            command: vec!["true".to_owned()],
            limits: sunaba_types::shim::Limits::default(),
            layers: Vec::new(),
            root_fs: None,
            seccomp: true,
        }
    }

    #[test]
    fn never_goes_on_as_root() {
        let root = Uid::from_raw(0);
        assert!(host_user(&spec(None), root).is_err());
        assert!(host_user(&spec(Some(0)), root).is_err());
        assert_eq!(host_user(&spec(Some(200_001)), root).unwrap(), Some(Uid::from_raw(200_001)));
    }

    #[test]
    fn an_ordinary_user_stays_itself() {
        let user = Uid::from_raw(1000);
        assert_eq!(host_user(&spec(None), user).unwrap(), None);
        assert!(host_user(&spec(Some(200_001)), user).is_err());
    }
}
