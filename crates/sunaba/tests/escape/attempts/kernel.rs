//! The kernel's own calls. Without the guard a call is made with arguments that the kernel refuses only
//! after it has asked for the privilege.

use crate::attempt::{Attempt, Without, py};

const FILTER: &str = "system calls are filtered";

pub(crate) const ATTEMPTS: &[Attempt] = &[
    py(
        "bpf",
        FILTER,
        Without::Root,
        r#"
attributes = (ctypes.c_uint32 * 32)(2, 4, 4, 1)  # an array of one number
if call("bpf", 0, attributes, 128)[0] >= 0:
    through()
"#,
    ),
    py(
        "performance-events",
        FILTER,
        Without::Bubblewrap,
        r#"
event = struct.pack("IIQQQQQ", 1, 112, 0, 0, 0, 0, 1 << 0 | 1 << 5 | 1 << 6).ljust(112, b"\0")
if call("perf_event_open", ctypes.create_string_buffer(event, 112), 0, -1, -1, 0)[0] >= 0:
    through()
"#,
    ),
    py(
        "io-uring",
        FILTER,
        Without::Bubblewrap,
        r#"
if call("io_uring_setup", 1, (ctypes.c_uint32 * 32)())[0] >= 0:
    through()
"#,
    ),
    py(
        "userfaultfd",
        FILTER,
        Without::Bubblewrap,
        r#"
if call("userfaultfd", os.O_CLOEXEC | 1)[0] >= 0:
    through()
"#,
    ),
    py(
        "add-a-key",
        FILTER,
        Without::Bubblewrap,
        r#"
if call("add_key", b"user", b"sunaba-attempt", b"x", 1, -2)[0] >= 0:
    through()
"#,
    ),
    py(
        "session-keyring",
        FILTER,
        Without::Bubblewrap,
        r#"
if call("keyctl", 1, None)[0] >= 0:
    through()
"#,
    ),
    py(
        "load-a-kernel",
        FILTER,
        Without::Root,
        r#"
if call("kexec_load", 0, 0, None, 0xdead)[1] == "EINVAL":
    through()
"#,
    ),
    py(
        "load-a-module",
        FILTER,
        Without::Root,
        r#"
error = call("init_module", None, 0, b"")[1]
if error == "EPERM" and os.environ["SIDE"] == "without":
    absent("this kernel loads no modules")
if error in ("ENOEXEC", "EFAULT", "EINVAL"):
    through()
"#,
    ),
    py(
        "remove-a-module",
        FILTER,
        Without::Root,
        r#"
error = call("delete_module", b"no such module", 0x800)[1]
if error == "EPERM" and os.environ["SIDE"] == "without":
    absent("this kernel loads no modules")
if error == "ENOENT":
    through()
"#,
    ),
    py(
        "kernel-log",
        FILTER,
        Without::Root,
        r#"
if call("syslog", 3, ctypes.create_string_buffer(4096), 4096)[0] > 0:
    through()
"#,
    ),
    py(
        "restart-the-machine",
        FILTER,
        Without::Root,
        r#"
if call("reboot", 0, 0, 0, None)[1] == "EINVAL":  # the magic numbers are wrong on purpose
    through()
"#,
    ),
    py(
        "set-the-clock",
        FILTER,
        Without::Root,
        r#"
zone = (ctypes.c_int * 2)(30000, 0)  # no such time zone
if call("settimeofday", None, zone)[1] == "EINVAL":
    through()
"#,
    ),
    py(
        "swap",
        FILTER,
        Without::Root,
        r#"
if call("swapon", b"/no/such/file", 0)[1] == "ENOENT":
    through()
"#,
    ),
    py(
        "accounting",
        FILTER,
        Without::Root,
        r#"
if call("acct", b"/no/such/file")[1] == "ENOENT":
    through()
"#,
    ),
    py(
        "quota",
        FILTER,
        Without::Bubblewrap,
        r#"
if call("quotactl", 0x80000700, b"/no/such/device", 0, None)[1] in ("ENOENT", "ENOTBLK"):
    through()
"#,
    ),
    py(
        "input-and-output-ports",
        FILTER,
        Without::Root,
        r#"
if call("iopl", 3)[0] == 0:
    through()
"#,
    ),
    py(
        "watch-the-file-system",
        FILTER,
        Without::Root,
        r#"
if call("fanotify_init", 0x4, os.O_RDONLY)[0] >= 0:
    through()
"#,
    ),
    py(
        "host-name",
        "no capability",
        Without::NamespaceRoot,
        r#"
if call("sethostname", b"mine", 4)[0] == 0:
    through()
"#,
    ),
    py(
        "type-into-a-terminal",
        FILTER,
        Without::Bubblewrap,
        r#"
import pty, termios
primary, secondary = pty.openpty()
if os.fork() == 0:
    os.setsid()
    fcntl.ioctl(secondary, termios.TIOCSCTTY, 0)
    try:
        fcntl.ioctl(secondary, termios.TIOCSTI, b"x")
        through()
    except OSError as error:
        if error.errno == errno.EIO and os.environ["SIDE"] == "without":
            absent("this kernel has no TIOCSTI")
        print(error, flush=True)
    os._exit(0)
os.wait()
"#,
    ),
    py(
        "sockets-to-the-hypervisor",
        FILTER,
        Without::Bubblewrap,
        r#"
try:
    socket.socket(40, socket.SOCK_STREAM, 0)  # AF_VSOCK knows no network namespace
    through()
except OSError as error:
    if error.errno == errno.EAFNOSUPPORT and os.environ["SIDE"] == "without":
        absent("this kernel has no AF_VSOCK")
    print(error)
"#,
    ),
    py(
        "kernel-crypto-sockets",
        FILTER,
        Without::Bubblewrap,
        r#"
try:
    socket.socket(38, socket.SOCK_SEQPACKET, 0)  # AF_ALG
    through()
except OSError as error:
    if error.errno == errno.EAFNOSUPPORT and os.environ["SIDE"] == "without":
        absent("this kernel has no AF_ALG")
    print(error)
"#,
    ),
    py(
        "calls-of-32-bit-programs",
        "the filter knows every way into the kernel",
        Without::Bubblewrap,
        r#"
import mmap
if platform.machine() != "x86_64":
    absent("another processor")
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
# keyctl(KEYCTL_JOIN_SESSION_KEYRING, NULL) by interrupt 0x80
page.write(b"\x53\xb8\x20\x01\x00\x00\xbb\x01\x00\x00\x00\x31\xc9\xcd\x80\x5b\xc3")
entry = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
child = os.fork()
if child == 0:
    os._exit(0 if entry() > 0 else 1)
status = os.waitpid(child, 0)[1]
print(status)
if status == 0:
    through()
elif os.environ["SIDE"] == "without":
    absent("this kernel runs no 32-bit programs")
"#,
    ),
    py(
        "calls-of-x32-programs",
        "the filter knows every way into the kernel",
        Without::Bubblewrap,
        r#"
if platform.machine() != "x86_64":
    absent("another processor")
if LIBC.syscall(ctypes.c_long(0x40000000 | 250), 1, None) > 0:
    through()
elif os.environ["SIDE"] == "without":
    absent("this kernel runs no x32 programs")
"#,
    ),
];
