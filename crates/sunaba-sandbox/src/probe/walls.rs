//! Whether bubblewrap makes a sandbox here at all.

use tokio::process::Command;

use super::{Host, NOBODY, kernel, run};
use crate::Error;

const ALLOW: &str = "allow unprivileged user namespaces: sysctl kernel.unprivileged_userns_clone=1, \
                     user.max_user_namespaces above 0, and on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0";

/// What surrounds a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walls {
    /// Only loopback is to be seen inside.
    pub network_closed: bool,
    /// System calls can be filtered.
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
    let mut command = Command::new(bubblewrap);
    command
        .args(["--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/", "/"])
        .args(["--proc", "/proc", "--dev", "/dev", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"])
        .args(["--", "/bin/cat", "/proc/net/dev"]);
    if separate_users {
        command.uid(NOBODY).gid(NOBODY);
    }
    let devices = run(command).await.map_err(|error| {
        Error::Unsupported(format!("bubblewrap cannot make namespaces here ({error}); {ALLOW}"))
    })?;
    let network_closed =
        devices.lines().filter_map(|line| line.split_once(':')).all(|(device, _)| device.trim() == "lo");
    if !network_closed {
        return Err(Error::Unsupported("a sandbox here sees more of the network than loopback".to_owned()));
    }
    let seccomp = kernel::seccomp(host).status == sunaba_types::FindingStatus::Ok;
    Ok(Walls { network_closed, seccomp })
}
