# What every attempt written in Python begins with.
import ctypes, errno, fcntl, glob, os, platform, select, signal, socket, stat, struct, subprocess, sys, time

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
# x86-64, AArch64
NUMBERS = {
    "add_key": (248, 217), "bpf": (321, 280), "clone": (56, 220), "clone3": (435, 435), "delete_module": (176, 106),
    "fsopen": (430, 430), "fsmount": (432, 432), "fsconfig": (431, 431), "init_module": (175, 105),
    "io_uring_setup": (425, 425), "kexec_load": (246, 104), "keyctl": (250, 219), "mount": (165, 40),
    "mount_setattr": (442, 442), "move_mount": (429, 429), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "open_tree": (428, 428), "perf_event_open": (298, 241),
    "personality": (135, 92), "pidfd_getfd": (438, 438), "pidfd_open": (434, 434), "pivot_root": (155, 41),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60),
    "reboot": (169, 142), "setns": (308, 268), "settimeofday": (164, 170), "swapon": (167, 224),
    "syslog": (103, 116), "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282), "acct": (163, 89),
    "iopl": (172, None), "modify_ldt": (154, None), "kcmp": (312, 272), "sethostname": (170, 161),
    "capset": (126, 91), "setpriority": (141, 140), "prlimit64": (302, 261), "fanotify_init": (300, 262),
    "mq_open": (240, 180), "mq_timedreceive": (243, 183), "shmget": (29, 194), "lookup_dcookie": (212, 18),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "pidfd_send_signal": (424, 424),
}


def through():
    print("GOT-" + "THROUGH", flush=True)


def absent(why):
    print("NOT-" + "HERE", why, flush=True)
    sys.exit(0)


def call(name, *arguments):
    """A system call: its result and the name of its error."""
    number = NUMBERS[name][0 if platform.machine() == "x86_64" else 1]
    if number is None:
        absent("this processor has no " + name)
    ctypes.set_errno(0)
    plain = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = LIBC.syscall(ctypes.c_long(number), *plain)
    error = errno.errorcode.get(ctypes.get_errno(), "none") if result < 0 else "none"
    print(name, result, error, flush=True)
    if error == "ENOSYS" and os.environ.get("SIDE") == "without":
        absent("this kernel has no " + name)
    return result, error


def opens(path, flags):
    """Whether a file of the kernel opens; nothing is read or written."""
    if os.environ.get("SIDE") == "without" and not os.path.exists(path):
        absent(path)
    opened = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    seen = os.fstat(opened)
    # What is masked is /dev/null or an empty file.
    null = stat.S_ISCHR(seen.st_mode) and seen.st_rdev == os.makedev(1, 3)
    return opened, not null


def kept_from_root(error):
    """Where even root is refused outside, a refusal inside says nothing."""
    if os.environ["SIDE"] == "without":
        absent("this machine keeps it from root too: %s" % error)
    raise error


def is_victim():
    """Whether the victim's number names the victim here too, and not a process of our own."""
    try:
        return open("/proc/%s/comm" % os.environ["VICTIM_PID"]).read().strip() == "sunaba-decoy"
    except OSError:
        return False


def fetch(address, timeout=3):
    """What a listener says."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as stream:
        stream.settimeout(timeout)
        stream.connect(address)
        stream.sendall(b"GET / HTTP/1.0\r\n\r\n")
        print(stream.recv(4096).decode(errors="replace"), flush=True)
