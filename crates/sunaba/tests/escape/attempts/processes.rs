//! The host's processes: seeing, signalling, tracing and reading them.

use crate::attempt::{Attempt, Without, py, sh};

const PIDS: &str = "a pid namespace";
const IPC: &str = "an ipc namespace";

pub(crate) const ATTEMPTS: &[Attempt] = &[
    sh(
        "list-processes",
        PIDS,
        Without::User,
        r#"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -ao 'canary-[0-9a-f]*' | sort -u"#,
    ),
    sh(
        "read-environments",
        PIDS,
        Without::User,
        r#"cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | grep -a '^DECOY_SECRET='"#,
    ),
    py(
        "signal",
        PIDS,
        Without::User,
        r#"
if is_victim():
    os.kill(int(os.environ["VICTIM_PID"]), signal.SIGUSR1)
    through()
"#,
    ),
    py(
        "signal-by-descriptor",
        PIDS,
        Without::User,
        r#"
held = os.pidfd_open(int(os.environ["VICTIM_PID"]))
if is_victim():
    signal.pidfd_send_signal(held, 0)
    through()
"#,
    ),
    py(
        "trace",
        PIDS,
        Without::User,
        r#"
pid = int(os.environ["VICTIM_PID"])
seized, error = call("ptrace", 0x4206, pid, 0, 0)
if seized == 0 and is_victim():
    through()
"#,
    ),
    py(
        "read-memory",
        PIDS,
        Without::User,
        r#"
pid, address, length = (int(os.environ[k]) for k in ("VICTIM_PID", "VICTIM_ADDRESS", "VICTIM_LENGTH"))
class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
own = ctypes.create_string_buffer(length)
here, there = Piece(ctypes.addressof(own), length), Piece(address, length)
call("process_vm_readv", pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
print(own.raw)
"#,
    ),
    py(
        "read-memory-file",
        PIDS,
        Without::User,
        r#"
pid, address, length = (int(os.environ[k]) for k in ("VICTIM_PID", "VICTIM_ADDRESS", "VICTIM_LENGTH"))
with open("/proc/%d/mem" % pid, "rb", 0) as memory:
    memory.seek(address)
    print(memory.read(length))
"#,
    ),
    py(
        "take-a-descriptor",
        PIDS,
        Without::User,
        r#"
held = os.pidfd_open(int(os.environ["VICTIM_PID"]))
fd, error = call("pidfd_getfd", held, int(os.environ["VICTIM_FD"]), 0)
print(os.pread(fd, 200, 0))
"#,
    ),
    py(
        "change-priority",
        PIDS,
        Without::User,
        r#"
if is_victim():
    os.setpriority(os.PRIO_PROCESS, int(os.environ["VICTIM_PID"]), 1)
    through()
"#,
    ),
    py(
        "change-limits",
        PIDS,
        Without::User,
        r#"
import resource
pid = int(os.environ["VICTIM_PID"])
if is_victim():
    print(resource.prlimit(pid, resource.RLIMIT_CORE, (0, resource.prlimit(pid, resource.RLIMIT_CORE)[1])))
    through()
"#,
    ),
    py(
        "shared-memory",
        IPC,
        Without::User,
        r#"
LIBC.shmat.restype = ctypes.c_void_p
segment = LIBC.shmget(int(os.environ["SHM_KEY"]), 0, 0)
print(ctypes.string_at(LIBC.shmat(segment, None, 0o10000), 200) if segment >= 0 else "none")
"#,
    ),
    py(
        "message-queue",
        IPC,
        Without::User,
        r#"
queue, error = call("mq_open", os.environ["QUEUE"].encode(), os.O_RDONLY | os.O_NONBLOCK, 0, None)
if queue >= 0:
    text = ctypes.create_string_buffer(65536)
    call("mq_timedreceive", queue, text, 65536, None, None)
    print(text.value)
"#,
    ),
    py(
        "keys-of-the-kernel",
        "keyrings belong to a user namespace; keyctl is filtered",
        Without::User,
        r#"
text = ctypes.create_string_buffer(200)
got, error = call("keyctl", 11, int(os.environ["KEY_ID"]), text, 200)
print(text.value if got > 0 else "none")
"#,
    ),
];
