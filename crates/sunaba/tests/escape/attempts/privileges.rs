//! Privileges: setuid programs, file capabilities, raising one's own.

use crate::attempt::{Attempt, Without, py, sh};

const NO_NEW: &str = "no_new_privs, nosuid and a user namespace that maps one user";

pub(crate) const ATTEMPTS: &[Attempt] = &[
    sh("setuid-program", NO_NEW, Without::User, r#""$TOOLS/setuid-cat" "$TOOLS/secret""#),
    sh("setgid-program", NO_NEW, Without::User, r#""$TOOLS/setgid-cat" "$TOOLS/group-secret""#),
    sh("program-with-capabilities", NO_NEW, Without::User, r#""$TOOLS/capable-cat" "$TOOLS/secret""#),
    py(
        "setuid-programs-of-the-system",
        NO_NEW,
        Without::User,
        r#"
# It asks for a password on the terminal and waits there: as whom does it run?
import pty
child, terminal = pty.fork()
if child == 0:
    os.execv("/usr/bin/su", ["su", "root", "-c", "true"])
deadline = time.time() + 3
while time.time() < deadline:
    status = open("/proc/%d/status" % child).read()
    users = [line for line in status.splitlines() if line.startswith("Uid:")][0].split()
    if "State:\tZ" in status or users[1] != users[2]:
        break
    time.sleep(0.02)
print(users)
if users[1] != users[2]:
    through()
os.kill(child, signal.SIGKILL)
"#,
    ),
    py(
        "become-root",
        NO_NEW,
        Without::NamespaceRoot,
        r#"
os.setresuid(0, 0, 0)
if os.geteuid() == 0:
    through()
"#,
    ),
    py(
        "raise-capabilities",
        "every capability set is empty, the bounding set too",
        Without::NamespaceRoot,
        r#"
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
wanted = (ctypes.c_uint32 * 6)(1 << 21, 1 << 21, 0, 0, 0, 0)  # CAP_SYS_ADMIN
if call("capset", header, wanted)[0] == 0:
    through()
"#,
    ),
    py(
        "ambient-capabilities",
        "every capability set is empty, the bounding set too",
        Without::NamespaceRoot,
        r#"
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
call("capset", header, (ctypes.c_uint32 * 6)(1 << 21, 1 << 21, 1 << 21, 0, 0, 0))
if LIBC.prctl(47, 2, 21, 0, 0) == 0:
    through()
"#,
    ),
    sh(
        "any-capability-left",
        "every capability set is empty, the bounding set too",
        Without::NamespaceRoot,
        r#"grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -v '0000000000000000' && through"#,
    ),
    py(
        "forget-no-new-privileges",
        "no_new_privs cannot be taken back",
        Without::User,
        r#"
if LIBC.prctl(38, 0, 0, 0, 0) == 0 or LIBC.prctl(39, 0, 0, 0, 0) == 0:
    through()
"#,
    ),
    py(
        "map-more-users",
        "the maps are written once",
        Without::Bubblewrap,
        r#"
user = os.getuid()
if os.fork() == 0:
    if LIBC.unshare(0x10000000) == 0:
        try:
            os.write(os.open("/proc/self/uid_map", os.O_WRONLY), b"0 %d 1" % user)
            through()
        except OSError as error:
            print(error, flush=True)
    os._exit(0)
os.wait()
for name in ("uid_map", "gid_map"):
    try:
        os.write(os.open("/proc/self/" + name, os.O_WRONLY), b"0 0 1")
        through()
    except OSError as error:
        print(error)
"#,
    ),
    py(
        "real-time-priority",
        "no CAP_SYS_NICE",
        Without::Root,
        r#"
# Control groups may have no real-time budget, for anybody.
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    through()
except PermissionError as error:
    kept_from_root(error)
"#,
    ),
    py(
        "raise-own-limits",
        "no CAP_SYS_RESOURCE",
        Without::Root,
        r#"
import resource
try:
    resource.setrlimit(resource.RLIMIT_NICE, (40, 40))
    through()
except ValueError as error:
    kept_from_root(error)
"#,
    ),
];
