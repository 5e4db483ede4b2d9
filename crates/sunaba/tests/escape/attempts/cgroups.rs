//! Control groups: getting out of one's own, raising its limits, having the kernel run something.

use crate::attempt::{Attempt, Without, py, sh};

const HIDDEN: &str = "the cgroup file systems are not there, and cannot be mounted";

pub(crate) const ATTEMPTS: &[Attempt] = &[
    py(
        "release-agent",
        HIDDEN,
        Without::Root,
        r#"
agents = glob.glob("/sys/fs/cgroup/*/release_agent") + glob.glob("/sys/fs/cgroup/release_agent")
if not agents and os.environ["SIDE"] == "without":
    absent("no release_agent")
for agent in agents:
    os.close(os.open(agent, os.O_WRONLY))
    through()
"#,
    ),
    py(
        "leave-the-group",
        HIDDEN,
        Without::Root,
        r#"
for place in glob.glob("/sys/fs/cgroup/cgroup.procs") + glob.glob("/sys/fs/cgroup/*/cgroup.procs"):
    os.close(os.open(place, os.O_WRONLY))
    through()
"#,
    ),
    py(
        "raise-limits",
        HIDDEN,
        Without::Root,
        r#"
names = ("memory.limit_in_bytes", "memory.max", "pids.max", "cpu.cfs_quota_us", "cpu.max")
for line in open("/proc/self/cgroup"):
    number, kinds, path = line.rstrip("\n").split(":", 2)
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/" + kinds):
        for found in [f for n in names for f in glob.glob(root + path + "/" + n) + glob.glob(root + "/*/" + n)]:
            os.close(os.open(found, os.O_WRONLY))
            through()
            sys.exit()
"#,
    ),
    sh(
        "mount-cgroups",
        "no capability",
        Without::Root,
        r#"mount -t cgroup2 none . && through || { mount -t cgroup -o none,name=systemd none . && through; }"#,
    ),
    sh(
        "names-of-groups",
        "a cgroup namespace",
        Without::Root,
        r#"cut -d: -f3 /proc/self/cgroup | grep -qv '^/$' && through || { [ "$SIDE" = without ] && absent 'this host has one group'; }"#,
    ),
];
