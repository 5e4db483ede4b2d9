//! The kernel's own files. Without the guard they are opened and not written to.

use crate::attempt::{Attempt, Without, py};

const MASKED: &str = "/proc/sys and the like are read-only or masked, /sys is not there";

macro_rules! writable {
    ($name:literal, $path:literal) => {
        py(
            $name,
            MASKED,
            Without::Root,
            concat!("if opens(\"", $path, "\", os.O_WRONLY)[1]:\n    through()\n"),
        )
    };
}

macro_rules! readable {
    ($name:literal, $path:literal) => {
        py(
            $name,
            MASKED,
            Without::Root,
            concat!(
                "held, real = opens(\"",
                $path,
                "\", os.O_RDONLY)\n",
                "if real and len(os.read(held, 64)) > 0:\n    through()\n"
            ),
        )
    };
}

pub(crate) const ATTEMPTS: &[Attempt] = &[
    writable!("core-pattern", "/proc/sys/kernel/core_pattern"),
    writable!("module-helper", "/proc/sys/kernel/modprobe"),
    writable!("kernel-settings", "/proc/sys/vm/overcommit_memory"),
    writable!("binary-formats", "/proc/sys/fs/binfmt_misc/register"),
    writable!("magic-key", "/proc/sysrq-trigger"),
    writable!("device-helper", "/sys/kernel/uevent_helper"),
    writable!("power-state", "/sys/power/state"),
    readable!("kernel-memory", "/proc/kcore"),
    readable!("kernel-timers", "/proc/timer_list"),
    readable!("kernel-keys", "/proc/keys"),
    readable!("files-of-sys", "/sys/kernel/notes"),
    py(
        "kernel-addresses",
        MASKED,
        Without::Root,
        r#"
addresses = [line.split()[0] for line, _ in zip(open("/proc/kallsyms"), range(100))]
if any(address.strip("0") for address in addresses):
    through()
elif os.environ["SIDE"] == "without":
    absent("this kernel hides its addresses from root too")
"#,
    ),
    py(
        "debug-file-systems",
        MASKED,
        Without::Root,
        r#"
places = [p for p in ("/sys/kernel/debug", "/sys/kernel/tracing", "/sys/fs/bpf", "/sys/firmware", "/sys/kernel/security") if os.path.isdir(p)]
if not places and os.environ["SIDE"] == "without":
    absent("no such place")
for place in places:
    if os.listdir(place):
        through()
"#,
    ),
];
