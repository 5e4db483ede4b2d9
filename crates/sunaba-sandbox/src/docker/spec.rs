//! The container that a sandbox is: closed wherever the daemon lets us close it.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount, MountType,
    MountVolumeOptions, MountVolumeOptionsDriverConfig, ResourcesUlimits, RestartPolicy,
    RestartPolicyNameEnum,
};
use sunaba_types::SandboxId;
use sunaba_types::shim::{HOME_INSIDE, Limits, WORKER_INSIDE, WORKSPACE_INSIDE};

use crate::{Bind, StartRequest};

/// Names the sandbox on its container and volumes.
pub(super) const SANDBOX_LABEL: &str = "io.sunaba.sandbox";
/// Names the server's data directory on them: two servers may share a daemon.
pub(super) const INSTANCE_LABEL: &str = "io.sunaba.instance";

/// How much may lie in `/tmp` where memory is not limited.
const TMP_BYTES: u64 = 2 << 30;
/// Tells of the host's memory, keys, timers and devices, or does something to the host: what a local sandbox has
/// covered, and `/sys`, of which a local sandbox has none.
const COVERED: &[&str] = &[
    "/sys",
    "/proc/acpi",
    "/proc/asound",
    "/proc/bus",
    "/proc/driver",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/irq",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/mtrr",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/timer_stats",
];
/// Programs look at these, and would change the host by writing to them.
const READ_ONLY: &[&str] = &["/proc/sys"];
/// Files that a process has open as a rule, and at most if it asks; as in a local sandbox.
const OPEN_FILES_USUAL: u64 = 1024;
pub(super) const OPEN_FILES_MAX: u64 = 65_536;
/// A host name is no longer than this.
const HOST_NAME_MAX: usize = 63;

/// Everything that goes into a container.
#[derive(Debug)]
pub(super) struct Spec<'a> {
    pub(super) id: &'a SandboxId,
    pub(super) instance: &'a str,
    pub(super) image: &'a str,
    /// `uid:gid`.
    pub(super) user: String,
    pub(super) limits: Limits,
    pub(super) mounts: Vec<Mount>,
    pub(super) network: &'a str,
    pub(super) seccomp: Option<&'a str>,
    /// Whether the daemon maps users, which would hide ours from it.
    pub(super) users_mapped: bool,
    /// How many files a process may have open, if it asks; none where the daemon cannot be told.
    pub(super) open_files: Option<u64>,
}

impl Spec<'_> {
    pub(super) fn body(self, request: &StartRequest) -> ContainerCreateBody {
        let mut command = vec!["guest".to_owned(), "--".to_owned()];
        if request.command.is_empty() {
            command.extend([WORKER_INSIDE.to_owned(), "work".to_owned()]);
        } else {
            command.extend(request.command.iter().cloned());
        }
        let name: String = self.id.as_str().chars().take(HOST_NAME_MAX).collect();
        ContainerCreateBody {
            // A host name holds no underscore.
            hostname: Some(name.replace('_', "-")),
            user: Some(self.user.clone()),
            env: Some(env(request)),
            entrypoint: Some(vec![WORKER_INSIDE.to_owned()]),
            cmd: Some(command),
            image: Some(self.image.to_owned()),
            working_dir: Some(WORKSPACE_INSIDE.to_owned()),
            labels: Some(labels(self.id, self.instance)),
            host_config: Some(self.host_config()),
            ..ContainerCreateBody::default()
        }
    }

    fn host_config(self) -> HostConfig {
        let memory = self.limits.memory_bytes.and_then(|bytes| i64::try_from(bytes).ok());
        let tmp_bytes = self.limits.memory_bytes.unwrap_or(TMP_BYTES);
        let mut security = vec!["no-new-privileges:true".to_owned()];
        security.extend(self.seccomp.map(|profile| format!("seccomp={profile}")));
        HostConfig {
            memory,
            // Together with swap no more than without.
            memory_swap: memory,
            nano_cpus: self.limits.cpu_millis.map(|millis| i64::from(millis) * 1_000_000),
            pids_limit: self.limits.pids.map(i64::from),
            ulimits: Some(resource_limits(self.open_files)),
            network_mode: Some(self.network.to_owned()),
            mounts: Some(self.mounts),
            // Programs are built and run there.
            tmpfs: Some(HashMap::from([(
                "/tmp".to_owned(),
                format!("rw,exec,nosuid,nodev,mode=1777,size={tmp_bytes}"),
            )])),
            readonly_rootfs: Some(true),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(security),
            userns_mode: self.users_mapped.then(|| "host".to_owned()),
            ipc_mode: Some("private".to_owned()),
            // With version 1 groups a daemon would show its own.
            cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
            masked_paths: Some(COVERED.iter().map(|path| (*path).to_owned()).collect()),
            readonly_paths: Some(READ_ONLY.iter().map(|path| (*path).to_owned()).collect()),
            log_config: Some(kept_output()),
            restart_policy: Some(RestartPolicy {
                name: Some(RestartPolicyNameEnum::NO),
                maximum_retry_count: None,
            }),
            auto_remove: Some(false),
            ..HostConfig::default()
        }
    }
}

/// No core files, and a bound on open files.
fn resource_limits(open_files: Option<u64>) -> Vec<ResourcesUlimits> {
    let bound = |name: &str, soft: u64, hard: u64| ResourcesUlimits {
        name: Some(name.to_owned()),
        soft: i64::try_from(soft).ok(),
        hard: i64::try_from(hard).ok(),
    };
    let files = open_files.map(|most| bound("nofile", most.min(OPEN_FILES_USUAL), most));
    [bound("core", 0, 0)].into_iter().chain(files).collect()
}

/// What was asked for; without a home of its own the daemon would take one from the image's users.
fn env(request: &StartRequest) -> Vec<String> {
    let home = (!request.env.contains_key("HOME")).then(|| format!("HOME={HOME_INSIDE}"));
    request.env.iter().map(|(name, value)| format!("{name}={value}")).chain(home).collect()
}

/// What the container writes is kept by the daemon, up to a bound.
fn kept_output() -> HostConfigLogConfig {
    let config =
        HashMap::from([("max-size".to_owned(), "64m".to_owned()), ("max-file".to_owned(), "2".to_owned())]);
    HostConfigLogConfig { typ: Some("json-file".to_owned()), config: Some(config) }
}

/// The container's name: the sandbox's id, so that making it twice makes it once.
pub(super) fn name(id: &SandboxId) -> String {
    let tame = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '-' };
    format!("sunaba-{}", id.as_str().chars().map(tame).collect::<String>())
}

pub(super) fn labels(id: &SandboxId, instance: &str) -> HashMap<String, String> {
    HashMap::from([
        (SANDBOX_LABEL.to_owned(), id.as_str().to_owned()),
        (INSTANCE_LABEL.to_owned(), instance.to_owned()),
    ])
}

/// A host path shown inside.
pub(super) fn bind(bind: &Bind) -> Mount {
    Mount {
        target: Some(bind.target.clone()),
        source: Some(bind.source.clone()),
        typ: Some(MountType::BIND),
        read_only: Some(!bind.writable),
        ..Mount::default()
    }
}

/// A named volume of the daemon.
pub(super) fn volume(name: &str, target: &str, writable: bool) -> Mount {
    Mount {
        target: Some(target.to_owned()),
        source: Some(name.to_owned()),
        typ: Some(MountType::VOLUME),
        read_only: Some(!writable),
        volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..MountVolumeOptions::default() }),
        ..Mount::default()
    }
}

/// A writable directory over read-only ones, the first on top; the daemon mounts it and forgets it with the container.
pub(super) fn overlay(lower: &[&str], upper: &str, work: &str, target: &str) -> Mount {
    let lower = lower.join(":");
    let options = HashMap::from([
        ("type".to_owned(), "overlay".to_owned()),
        ("device".to_owned(), "overlay".to_owned()),
        ("o".to_owned(), format!("lowerdir={lower},upperdir={upper},workdir={work}")),
    ]);
    let driver = MountVolumeOptionsDriverConfig { name: Some("local".to_owned()), options: Some(options) };
    Mount {
        target: Some(target.to_owned()),
        typ: Some(MountType::VOLUME),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(true),
            driver_config: Some(driver),
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn body() -> ContainerCreateBody {
        let id = SandboxId::parse("sbx_1").unwrap();
        let spec = Spec {
            id: &id,
            instance: "here",
            image: "i",
            user: "200001:200001".to_owned(),
            limits: Limits {
                memory_bytes: Some(1 << 30),
                cpu_millis: Some(1500),
                pids: Some(64),
                disk_bytes: None,
            },
            mounts: Vec::new(),
            network: "none",
            seccomp: Some("{}"),
            users_mapped: false,
            open_files: Some(20_000),
        };
        let env = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        spec.body(&StartRequest { env, ..StartRequest::default() })
    }

    #[test]
    fn nothing_is_left_open() {
        let host = body().host_config.unwrap();
        assert_eq!(host.network_mode.as_deref(), Some("none"));
        assert_eq!(host.readonly_rootfs, Some(true));
        assert_eq!(host.cap_drop.unwrap(), ["ALL"]);
        assert_eq!(host.security_opt.unwrap(), ["no-new-privileges:true", "seccomp={}"]);
        assert_eq!((host.memory, host.memory_swap), (Some(1 << 30), Some(1 << 30)));
        assert_eq!((host.nano_cpus, host.pids_limit), (Some(1_500_000_000), Some(64)));
        assert_eq!((host.privileged, host.cap_add, host.pid_mode), (None, None, None));
        let limits: Vec<_> =
            host.ulimits.unwrap().into_iter().map(|one| (one.name, one.soft, one.hard)).collect();
        let named = |name: &str, soft, hard| (Some(name.to_owned()), Some(soft), Some(hard));
        assert_eq!(limits, [named("core", 0, 0), named("nofile", 1024, 20_000)]);
        assert_eq!(resource_limits(None).len(), 1);
    }

    #[test]
    fn what_a_local_sandbox_has_covered_is_covered() {
        let local = include_str!("../../../sunaba-worker/src/launch/walls.rs");
        let list = local.split_once("const COVERED").unwrap().1.split_once("];").unwrap().0;
        let paths: Vec<&str> = list.split('"').filter(|part| part.starts_with("/proc/")).collect();
        assert!(paths.len() > 15, "{paths:?}");
        for path in paths {
            assert!(COVERED.contains(&path), "{path}");
        }
    }

    #[test]
    fn the_guest_is_the_first_program_and_the_worker_the_usual_one() {
        let body = body();
        assert_eq!(body.entrypoint.unwrap(), [WORKER_INSIDE]);
        assert_eq!(body.cmd.unwrap(), ["guest", "--", WORKER_INSIDE, "work"]);
        assert_eq!(body.user.as_deref(), Some("200001:200001"));
        assert_eq!(body.hostname.as_deref(), Some("sbx-1"));
        assert_eq!(name(&SandboxId::parse("sbx_1").unwrap()), "sunaba-sbx_1");
    }
}
