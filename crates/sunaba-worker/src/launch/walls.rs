//! `/proc`, `/dev` and `/tmp` inside: what programs need, and nothing of the host.
//!
//! There is no `/sys`. What `/proc` tells about the machine rather than about
//! processes is covered, and settings in `/proc/sys` can be read and not changed: some
//! belong to the sandbox's own namespaces, and with them to its user.

use std::path::Path;

use super::arguments::Options;

/// Tells of the host's memory, keys, timers and devices, or does something to the host.
const COVERED: &[&str] = &[
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
/// Most that `/tmp` holds, which is memory.
const TMP_MAX_BYTES: u64 = 2 << 30;
/// Most that `/dev/shm` holds, which is memory too.
const SHARED_MEMORY_MAX_BYTES: u64 = 1 << 30;

/// Adds them. Nothing in memory is larger than the memory the sandbox may use.
pub(super) fn kernel_file_systems(options: &mut Options, memory_bytes: Option<u64>) {
    let bounded = |most: u64| memory_bytes.map_or(most, |memory| memory.min(most)).to_string();
    // The host's, which shows everybody the settings of their own namespaces.
    options.add(&["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]);
    for path in COVERED {
        // Which of them there are is up to the kernel, the same inside and outside.
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => {
                options.add(&["--perms", "0555", "--size", "4096", "--tmpfs", path, "--remount-ro", path]);
            }
            Ok(_) if !Path::new(path).is_symlink() => options.add(&["--ro-bind", "/dev/null", path]),
            _ => {}
        }
    }
    options.add(&["--dev", "/dev"]);
    options.add(&["--perms", "1777", "--size", &bounded(SHARED_MEMORY_MAX_BYTES), "--tmpfs", "/dev/shm"]);
    options.add(&["--remount-ro", "/dev"]);
    options.add(&["--perms", "1777", "--size", &bounded(TMP_MAX_BYTES), "--tmpfs", "/tmp"]);
}
