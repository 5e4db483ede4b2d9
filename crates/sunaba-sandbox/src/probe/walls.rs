//! Whether bubblewrap makes a sandbox here at all.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::process::Stdio;

use nix::sys::memfd::{MFdFlags, memfd_create};
use tokio::process::Command;

use super::{Host, NOBODY, run};
use crate::Error;

const ALLOW: &str = "allow unprivileged user namespaces: sysctl kernel.unprivileged_userns_clone=1, \
                     user.max_user_namespaces above 0, and on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0";

/// What surrounds a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walls {
    /// Only loopback is to be seen inside.
    pub network_closed: bool,
    /// The filter of system calls loads and a program runs under it.
    pub seccomp: bool,
}

/// Makes one and looks around in it; as an ordinary user when told that sandboxes have users of their own.
pub async fn walls(host: &Host, separate_users: bool) -> Result<Walls, Error> {
    let Some(bubblewrap) = host.program("bwrap") else {
        return Err(Error::Unsupported(
            "bubblewrap is not installed; install the package `bubblewrap` (looked for bwrap in /usr/bin, /usr/local/bin and /bin)"
                .to_owned(),
        ));
    };
    let make = |filter: Option<File>| {
        let mut command = Command::new(&bubblewrap);
        command.args(["--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/", "/"]).args([
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--uid",
            "1000",
            "--gid",
            "1000",
            "--cap-drop",
            "ALL",
        ]);
        if let Some(filter) = filter {
            // It reads the filter from its standard input.
            command.args(["--seccomp", "0"]).stdin(filter);
        } else {
            command.stdin(Stdio::null());
        }
        command.args(["--", "/bin/cat", "/proc/net/dev"]);
        if separate_users {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    };
    let (seccomp, devices) = match filter_file() {
        Ok(filter) => match run(make(Some(filter))).await {
            Ok(devices) => (true, Ok(devices)),
            Err(_) => (false, run(make(None)).await),
        },
        Err(_) => (false, run(make(None)).await),
    };
    let devices = devices.map_err(|error| {
        Error::Unsupported(format!("bubblewrap cannot make namespaces here ({error}); {ALLOW}"))
    })?;
    let network_closed =
        devices.lines().filter_map(|line| line.split_once(':')).all(|(device, _)| device.trim() == "lo");
    if !network_closed {
        return Err(Error::Unsupported("a sandbox here sees more of the network than loopback".to_owned()));
    }
    Ok(Walls { network_closed, seccomp })
}

/// The filter that sandboxes get, in a file.
fn filter_file() -> std::io::Result<File> {
    let filter = crate::seccomp::filter().map_err(std::io::Error::other)?;
    let mut file = File::from(memfd_create(c"filter", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(&filter)?;
    file.rewind()?;
    Ok(file)
}
