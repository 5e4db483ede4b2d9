//! What the kernel offers and the administrator allows.

use std::path::Path;

use nix::unistd::geteuid;
use sunaba_types::Finding;
use tokio::process::Command;

use super::{Host, NOBODY, missing, not_used, ok, run, weaker};
use crate::disk::{self, Disks};

const ALLOW_NAMESPACES: &str = "sysctl -w user.max_user_namespaces=15000 kernel.unprivileged_userns_clone=1 \
                                (the second only where it exists)";
const ALLOW_APPARMOR: &str = "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give bwrap an AppArmor profile \
                              that has `userns,`";
/// Below this a warning.
const FREE_WANTED_BYTES: u64 = 10 << 30;

pub(super) async fn user_namespaces(host: &Host) -> Finding {
    let name = "user namespaces";
    let most = host.setting("user/max_user_namespaces").unwrap_or_else(|| "?".to_owned());
    if host.setting("kernel/unprivileged_userns_clone").as_deref() == Some("0") && !geteuid().is_root() {
        return missing(name, "kernel.unprivileged_userns_clone is 0", ALLOW_NAMESPACES);
    }
    let Some(unshare) = host.program("unshare") else {
        return weaker(name, "cannot be tried: unshare was not found", "install the package `util-linux`");
    };
    let mut command = Command::new(unshare);
    command.args(["--user", "--", "/bin/true"]).stdin(std::process::Stdio::null());
    if geteuid().is_root() {
        // Sandboxes make theirs as an ordinary user.
        command.uid(NOBODY).gid(NOBODY);
    }
    match run(command).await {
        Ok(_) => ok(name, format!("an ordinary user can make them (at most {most})")),
        Err(error) => missing(name, format!("{error} (at most {most} are allowed)"), ALLOW_NAMESPACES),
    }
}

pub(super) fn apparmor(host: &Host) -> Finding {
    let name = "AppArmor restriction";
    match host.setting("kernel/apparmor_restrict_unprivileged_userns").as_deref() {
        None => ok(name, "none: this kernel has no such restriction"),
        Some("0") => ok(name, "switched off"),
        Some(_) => weaker(name, "user namespaces of ordinary users get no rights", ALLOW_APPARMOR),
    }
}

pub(super) fn seccomp(host: &Host) -> Finding {
    let name = "seccomp";
    match host.setting("kernel/seccomp/actions_avail") {
        Some(actions) if actions.split_whitespace().any(|action| action == "errno") => {
            ok(name, "system calls can be filtered")
        }
        _ => missing(name, "this kernel filters no system calls", "use a kernel with CONFIG_SECCOMP_FILTER"),
    }
}

pub(super) async fn overlay(host: &Host, data: &Path) -> Finding {
    let name = "overlay";
    let remedy = "use a kernel with CONFIG_OVERLAY_FS, 5.11 or newer for ordinary users; without it set-up layers cannot be used";
    let (Some(unshare), Some(mount)) = (host.program("unshare"), host.program("mount")) else {
        return weaker(
            name,
            "cannot be tried: unshare or mount was not found",
            "install the package `util-linux`",
        );
    };
    let Ok(place) = Scratch::make(data) else {
        return weaker(name, format!("cannot be tried in {}", data.display()), remedy);
    };
    let dirs = ["lower", "upper", "work", "all"].map(|part| place.0.join(part));
    if dirs.iter().any(|dir| std::fs::create_dir(dir).is_err()) {
        return weaker(name, format!("cannot be tried in {}", data.display()), remedy);
    }
    let [lower, upper, work, all] = &dirs;
    let mut command = Command::new(unshare);
    command.stdin(std::process::Stdio::null());
    command.args(if geteuid().is_root() {
        &["--mount"][..]
    } else {
        &["--user", "--map-root-user", "--mount"]
    });
    let options =
        format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
    command.arg("--").arg(mount).args(["-t", "overlay", "overlay", "-o", &options]).arg(all);
    match run(command).await {
        Ok(_) => ok(name, "set-up layers can be laid under workspaces"),
        Err(error) => weaker(name, error, remedy),
    }
}

/// A directory that goes with this value.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn make(data: &Path) -> std::io::Result<Self> {
        let name = format!(".probe-{}", sunaba_types::SandboxId::generate());
        let path = data.join(name);
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) async fn loop_disks(host: &Host, data: &Path) -> Finding {
    let name = "loop disks";
    let instead = "disk limits are kept by looking";
    if !geteuid().is_root() {
        return weaker(name, format!("only root can mount images; {instead}"), "run the server as root");
    }
    if !host.dev.join("loop-control").exists() {
        return weaker(
            name,
            format!("{}/loop-control is missing; {instead}", host.dev.display()),
            "modprobe loop",
        );
    }
    let disks = Disks::new(data);
    let tried = tokio::task::spawn_blocking(move || disks.try_out()).await;
    match tried {
        Ok(Ok(())) => ok(name, "each sandbox can have a disk of its own"),
        Ok(Err(error)) => weaker(
            name,
            format!("{error}; {instead}"),
            "install `e2fsprogs` and `mount`, and let the server use /dev/loop*",
        ),
        Err(_) => weaker(name, instead, "look again"),
    }
}

pub(super) fn disk(data: &Path) -> Finding {
    let name = "disk";
    let Ok(free) = disk::free_bytes(data) else {
        return missing(
            name,
            format!("{} cannot be looked at", data.display()),
            "choose another data directory",
        );
    };
    let kind = file_system(data).unwrap_or_else(|| "unknown".to_owned());
    let detail = format!("{} MiB free on {kind} at {}", free >> 20, data.display());
    if free < FREE_WANTED_BYTES { weaker(name, detail, "free some space") } else { ok(name, detail) }
}

fn file_system(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let device = std::fs::metadata(path).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&format!("{major}:{minor}")))?;
    line.split_once(" - ")?.1.split(' ').next().map(str::to_owned)
}

pub(super) fn landlock(host: &Host) -> Finding {
    let modules = std::fs::read_to_string(host.sys.join("kernel/security/lsm")).unwrap_or_default();
    let there = modules.trim().split(',').any(|module| module == "landlock");
    not_used("Landlock", if there { "there" } else { "not listed by this kernel" })
}

pub(super) fn kvm(host: &Host) -> Finding {
    let path = host.dev.join("kvm");
    let opens = std::fs::OpenOptions::new().read(true).write(true).open(&path).is_ok();
    not_used("KVM", format!("{} {}", path.display(), if opens { "opens" } else { "cannot be opened" }))
}
