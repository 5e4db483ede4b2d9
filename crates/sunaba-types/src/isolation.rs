//! How well a sandbox is shut in: what was asked for, what a host can do, what was achieved.

use serde::{Deserialize, Serialize};

use crate::state::wire_enum;

wire_enum!(
    /// How a limit is kept.
    Enforcement {
        /// By the kernel, at the moment it would be passed.
        Kernel => "kernel",
        /// By looking several times a second and ending what passed it.
        Sampled => "sampled",
        /// Not at all.
        None => "none",
    }
);

wire_enum!(
    /// The least a caller accepts; what a host cannot give is refused, never quietly dropped.
    IsolationWanted {
        /// Every limit is kept by the kernel.
        Strict => "strict",
        /// Every limit is kept, by the kernel or by sampling.
        Sampled => "sampled",
        /// Whatever the host can do; what it cannot is recorded on the run.
        Any => "any",
    }
);

/// What a provider enforces on this host, as probed, or what one sandbox got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// Own user, mount, pid, ipc, host-name, cgroup namespaces (or a container's equal).
    pub namespaces: bool,
    /// Whether each sandbox has a host user of its own.
    pub own_uid: bool,
    /// Whether the network inside is loopback only.
    pub network_closed: bool,
    /// Whether system calls are filtered.
    pub seccomp: bool,
    /// Memory.
    pub memory: Enforcement,
    /// Processor time.
    pub cpu: Enforcement,
    /// Processes and threads.
    pub pids: Enforcement,
    /// Disk.
    pub disk: Enforcement,
}

impl Isolation {
    /// In one short line, recorded on each run: `namespaces+uid+seccomp memory=kernel cpu=kernel …`.
    pub fn level(&self) -> String {
        let parts = [
            (self.namespaces, "namespaces"),
            (self.own_uid, "uid"),
            (self.network_closed, "no-network"),
            (self.seccomp, "seccomp"),
        ];
        let kept: Vec<&str> = parts.iter().filter(|(held, _)| *held).map(|(_, name)| *name).collect();
        let base = if kept.is_empty() { "none".to_owned() } else { kept.join("+") };
        let limits: Vec<String> = self.limits().iter().map(|(name, kept)| format!("{name}={kept}")).collect();
        format!("{base} {}", limits.join(" "))
    }

    /// Each limit and how it is kept.
    pub const fn limits(&self) -> [(&'static str, Enforcement); 4] {
        [("memory", self.memory), ("cpu", self.cpu), ("pids", self.pids), ("disk", self.disk)]
    }

    /// What is weaker than wanted, by name; empty when everything holds.
    pub fn falls_short_of(&self, wanted: IsolationWanted) -> Vec<&'static str> {
        if wanted == IsolationWanted::Any {
            return Vec::new();
        }
        let strict = wanted == IsolationWanted::Strict;
        let mut short: Vec<&'static str> = self
            .limits()
            .iter()
            .filter(|(_, kept)| *kept == Enforcement::None || (strict && *kept == Enforcement::Sampled))
            .map(|(name, _)| *name)
            .collect();
        let walls =
            [("namespaces", self.namespaces), ("network", self.network_closed), ("seccomp", self.seccomp)];
        short.extend(walls.iter().filter(|(_, held)| !held).map(|(name, _)| *name));
        short
    }
}

wire_enum!(
    /// How a finding of the doctor stands.
    FindingStatus {
        /// It works.
        Ok => "ok",
        /// It works with less than it could.
        Weaker => "weaker",
        /// It does not work here.
        Missing => "missing",
        /// It was not asked for, so it was not tried.
        NotUsed => "not_used",
    }
);

/// One thing that was looked at on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What was looked at, in a word or two: `user namespaces`, `cgroup memory`.
    pub name: String,
    /// How it stands.
    pub status: FindingStatus,
    /// What was seen.
    pub detail: String,
    /// The command or the step that mends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Isolation {
        Isolation {
            namespaces: true,
            own_uid: true,
            network_closed: true,
            seccomp: true,
            memory: Enforcement::Kernel,
            cpu: Enforcement::Kernel,
            pids: Enforcement::Kernel,
            disk: Enforcement::Sampled,
        }
    }

    #[test]
    fn what_falls_short_is_named() {
        assert!(full().falls_short_of(IsolationWanted::Sampled).is_empty());
        assert_eq!(full().falls_short_of(IsolationWanted::Strict), ["disk"]);
        let open = Isolation { seccomp: false, cpu: Enforcement::None, ..full() };
        assert_eq!(open.falls_short_of(IsolationWanted::Sampled), ["cpu", "seccomp"]);
        assert!(open.falls_short_of(IsolationWanted::Any).is_empty());
    }

    #[test]
    fn the_level_names_everything() {
        assert_eq!(
            full().level(),
            "namespaces+uid+no-network+seccomp memory=kernel cpu=kernel pids=kernel disk=sampled"
        );
    }
}
