//! Finds out what this host can enforce, by trying it.

use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use sunaba_types::Enforcement;

use crate::{Error, Isolation};

const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// As unprivileged as a sandbox's own user, and no sandbox's.
const NOBODY: u32 = 65_534;
const PLACES: &[&str] =
    &["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap"];

/// Where bubblewrap is.
pub fn find_bubblewrap() -> Option<PathBuf> {
    PLACES.iter().map(PathBuf::from).find(|path| path.is_file())
}

pub(super) async fn isolation(separate_users: bool) -> Result<Isolation, Error> {
    let Some(bubblewrap) = find_bubblewrap() else {
        return Err(Error::Unsupported(
            "bubblewrap is not installed; install the package `bubblewrap` (looked for bwrap in /usr/bin, /usr/local/bin and /bin)"
                .to_owned(),
        ));
    };
    let mut command = Command::new(bubblewrap);
    command
        .args(["--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/", "/"])
        .args(["--proc", "/proc", "--dev", "/dev", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"])
        .args(["--", "/bin/cat", "/proc/net/dev"])
        .env_clear()
        .current_dir("/")
        .kill_on_drop(true);
    if separate_users {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = timeout(PROBE_TIMEOUT, command.output())
        .await
        .map_err(|_| Error::Unsupported("bubblewrap did not finish within 10 s".to_owned()))?
        .map_err(Error::backend("run bubblewrap"))?;
    judge(&output, separate_users)
}

fn judge(output: &Output, separate_users: bool) -> Result<Isolation, Error> {
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(Error::Unsupported(format!(
            "bubblewrap cannot make namespaces here ({}); allow unprivileged user namespaces: \
             sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0, and on Ubuntu \
             kernel.apparmor_restrict_unprivileged_userns=0",
            words.trim()
        )));
    }
    let devices = String::from_utf8_lossy(&output.stdout);
    let network_closed =
        devices.lines().filter_map(|line| line.split_once(':')).all(|(device, _)| device.trim() == "lo");
    if !network_closed {
        return Err(Error::Unsupported("a sandbox here sees more of the network than loopback".to_owned()));
    }
    Ok(Isolation {
        namespaces: true,
        own_uid: separate_users,
        network_closed,
        seccomp: false,
        memory: Enforcement::None,
        cpu: Enforcement::None,
        pids: Enforcement::None,
        disk: Enforcement::None,
    })
}
