//! What the daemon can enforce, as it says itself.

use bollard::models::SystemInfo;
use sunaba_types::{Enforcement, Finding, FindingStatus, Isolation};

/// What matters of the daemon's word about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Daemon {
    pub(super) version: String,
    /// It has no privileges of its own: root inside is its own user outside.
    pub(super) rootless: bool,
    /// It maps the users inside to others outside.
    pub(super) users_mapped: bool,
    pub(super) seccomp: bool,
    pub(super) memory: bool,
    pub(super) swap: bool,
    pub(super) cpu: bool,
    pub(super) pids: bool,
    pub(super) cgroups: String,
    pub(super) warnings: Vec<String>,
}

impl Daemon {
    pub(super) fn of(info: &SystemInfo) -> Self {
        let has = |name: &str| {
            let options = info.security_options.as_deref().unwrap_or_default();
            options.iter().any(|option| option.split(',').any(|part| part == format!("name={name}")))
        };
        let driver = info.cgroup_driver.map(|driver| driver.to_string()).unwrap_or_default();
        let version = info.cgroup_version.map(|version| version.to_string()).unwrap_or_default();
        Self {
            version: info.server_version.clone().unwrap_or_default(),
            rootless: has("rootless"),
            users_mapped: has("userns"),
            seccomp: has("seccomp"),
            memory: info.memory_limit == Some(true),
            swap: info.swap_limit == Some(true),
            cpu: info.cpu_cfs_quota == Some(true),
            pids: info.pids_limit == Some(true),
            cgroups: format!("version {version}, driver {driver}"),
            warnings: info.warnings.clone().unwrap_or_default(),
        }
    }

    /// What a container of it is kept to.
    pub(super) fn isolation(&self, wanted: Around) -> Isolation {
        let kept = |by_kernel| if by_kernel { Enforcement::Kernel } else { Enforcement::None };
        Isolation {
            namespaces: true,
            own_uid: wanted.own_users && !self.rootless,
            network_closed: !wanted.remote,
            seccomp: self.seccomp,
            memory: kept(self.memory),
            cpu: kept(self.cpu),
            pids: kept(self.pids),
            disk: wanted.disk,
        }
    }

    /// Everything that was looked at, for people.
    pub(super) fn findings(&self, host: &str, wanted: Around) -> Vec<Finding> {
        let mut findings = vec![
            finding("container daemon", FindingStatus::Ok, format!("{} at {host}", self.version), None),
            self.users(wanted),
            limit("container memory", self.memory, "memory"),
            limit("container cpu", self.cpu, "cpu"),
            limit("container pids", self.pids, "pids"),
        ];
        let status = if self.seccomp { FindingStatus::Ok } else { FindingStatus::Missing };
        let remedy = (!self.seccomp).then_some("use a daemon and a kernel with seccomp");
        findings.push(finding("container seccomp", status, "filters system calls".to_owned(), remedy));
        if !self.swap {
            let remedy = Some("boot the daemon's host with swapaccount=1, or turn its swap off");
            let detail = "swap is not counted, so a sandbox may use swap beyond its memory".to_owned();
            findings.push(finding("container swap", FindingStatus::Weaker, detail, remedy));
        }
        let disk = match wanted.disk {
            Enforcement::Kernel => (FindingStatus::Ok, "each sandbox has a file system of its own size"),
            Enforcement::Sampled => (FindingStatus::Weaker, "looked at every few seconds"),
            Enforcement::None => (FindingStatus::Missing, "nothing bounds what a sandbox writes"),
        };
        findings.push(finding("container disk", disk.0, disk.1.to_owned(), None));
        if wanted.remote {
            let detail = "a container elsewhere needs a network to reach this server".to_owned();
            let remedy = Some("bound what its network reaches with a firewall on that host");
            findings.push(finding("container network", FindingStatus::Weaker, detail, remedy));
        }
        findings.push(finding("container cgroups", FindingStatus::Ok, self.cgroups.clone(), None));
        for warning in &self.warnings {
            findings.push(finding("daemon's warning", FindingStatus::Weaker, warning.clone(), None));
        }
        findings
    }

    fn users(&self, wanted: Around) -> Finding {
        let (status, detail) = if self.rootless {
            (FindingStatus::Ok, "rootless: root inside is an ordinary user outside")
        } else if wanted.own_users {
            (FindingStatus::Ok, "each sandbox has a host user of its own")
        } else {
            (
                FindingStatus::Weaker,
                "all sandboxes have the same user; capabilities and files still part them",
            )
        };
        finding("container users", status, detail.to_owned(), None)
    }
}

/// What this server does around the daemon.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around {
    pub(super) remote: bool,
    pub(super) own_users: bool,
    pub(super) disk: Enforcement,
}

fn limit(name: &str, kept: bool, controller: &str) -> Finding {
    if kept {
        return finding(name, FindingStatus::Ok, "kept by the kernel".to_owned(), None);
    }
    let detail = format!("the daemon's host has no cgroup controller for {controller}");
    finding(name, FindingStatus::Missing, detail, Some("turn the controller on at the daemon's host"))
}

fn finding(name: &str, status: FindingStatus, detail: String, remedy: Option<&str>) -> Finding {
    Finding { name: name.to_owned(), status, detail, remedy: remedy.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_daemon_lacks_is_said() {
        let info = SystemInfo {
            security_options: Some(vec![
                "name=seccomp,profile=default".to_owned(),
                "name=rootless".to_owned(),
            ]),
            memory_limit: Some(true),
            pids_limit: Some(false),
            ..SystemInfo::default()
        };
        let daemon = Daemon::of(&info);
        assert!(daemon.rootless && daemon.seccomp && !daemon.users_mapped);
        let around = Around { remote: true, own_users: true, disk: Enforcement::None };
        let isolation = daemon.isolation(around);
        assert_eq!((isolation.memory, isolation.pids), (Enforcement::Kernel, Enforcement::None));
        assert!(!isolation.own_uid && !isolation.network_closed);
        let findings = daemon.findings("unix:///x", around);
        let of = |name: &str| findings.iter().find(|finding| finding.name == name).unwrap().status;
        assert_eq!(of("container pids"), FindingStatus::Missing);
        assert_eq!(of("container memory"), FindingStatus::Ok);
        assert_eq!(of("container network"), FindingStatus::Weaker);
    }
}
