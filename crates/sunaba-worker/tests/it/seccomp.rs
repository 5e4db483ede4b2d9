//! System calls that a sandbox is refused. Each is made under the filter and without it, in the same
//! sandbox otherwise: where the answers differ, the filter is what refuses.

use std::collections::BTreeMap;

use sunaba_sandbox::LocalProvider;

use crate::support::{Host, provider_in, shell};
use crate::trial;

/// Numbers, from the same table as the filter's: what is tested is which are refused.
const NUMBERS: &str = include_str!("../../../sunaba-sandbox/src/seccomp/numbers.txt");

/// Makes calls and prints what each answered: a number that is not negative, or the error's name.
const CALLER: &str = r#"
import ctypes, errno, os, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
column = {"x86_64": 1, "aarch64": 2}[platform.machine()]
numbers = {}
for line in open("numbers.txt"):
    words = line.split()
    if len(words) == 3 and words[column] != "-":
        numbers[words[0]] = int(words[column])
buffer = ctypes.create_string_buffer(4096)
null = os.open("/dev/null", os.O_RDWR)
def value(word):
    if word == "BUFFER": return ctypes.cast(buffer, ctypes.c_void_p)
    if word == "ROOT": return ctypes.c_char_p(b"/")
    if word == "USER": return ctypes.c_char_p(b"user")
    if word == "PID": return ctypes.c_long(os.getpid())
    if word == "NULL_FILE": return ctypes.c_long(null)
    return ctypes.c_long(int(word, 0))
for line in open("calls.txt"):
    label, name, *arguments = line.split()
    number = numbers.get(name)
    if number is None:
        number = int(name, 0) if name[0].isdigit() else None
    if number is None:
        print(label, "NOT_HERE")
        continue
    child = os.fork()
    if child == 0:
        ctypes.memset(buffer, 0, 4096)
        answer = libc.syscall(ctypes.c_long(number), *[value(word) for word in arguments])
        print(label, answer if answer >= 0 and answer < 1 else ("POSITIVE" if answer > 0 else errno.errorcode.get(ctypes.get_errno(), "?")), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        print(label, "SIGNAL", os.WTERMSIG(status), flush=True)
"#;

/// What is called, what the filter answers, and what is answered without it (none: another wall says
/// the same, or it depends on the kernel).
const CALLS: &[(&str, &str, &str, Option<&str>)] = &[
    // Allowed, so the caller itself is sound.
    ("getpid", "getpid", "POSITIVE", Some("POSITIVE")),
    ("unshare-files", "unshare 0x400", "0", Some("0")),
    ("socket-unix", "socket 1 1 0", "POSITIVE", Some("POSITIVE")),
    ("socket-inet", "socket 2 1 0", "POSITIVE", Some("POSITIVE")),
    ("socket-tcp-flags", "socket 2 0x80801 6", "POSITIVE", Some("POSITIVE")),
    ("socket-udp", "socket 2 2 17", "POSITIVE", Some("POSITIVE")),
    ("socket-inet6", "socket 10 0x80801 6", "POSITIVE", Some("POSITIVE")),
    ("socket-netlink", "socket 16 3 0", "POSITIVE", Some("POSITIVE")),
    ("socket-netlink-datagrams", "socket 16 0x80002 0", "POSITIVE", Some("POSITIVE")),
    ("ptrace-traceme", "ptrace 0 0 0 0", "0", Some("0")),
    ("personality-ask", "personality 0xffffffff", "0", Some("0")),
    ("personality-no-aslr", "personality 0x40000", "0", Some("0")),
    // Namespaces.
    ("unshare-user", "unshare 0x10000000", "EPERM", Some("ENOSPC")),
    ("unshare-net", "unshare 0x40000000", "EPERM", None),
    ("clone-user", "clone 0x10000011 0 0 0 0", "EPERM", Some("ENOSPC")),
    ("clone3", "clone3 0 0", "ENOSYS", Some("EINVAL")),
    ("setns", "setns -1 0", "EPERM", Some("EBADF")),
    // Mounts and files past directories.
    ("mount", "mount ROOT ROOT ROOT 0 0", "EPERM", None),
    ("umount2", "umount2 ROOT 0", "EPERM", None),
    ("pivot_root", "pivot_root ROOT ROOT", "EPERM", None),
    ("chroot", "chroot ROOT", "EPERM", None),
    ("open_tree", "open_tree -100 ROOT 0", "EPERM", Some("POSITIVE")),
    ("fsopen", "fsopen 0 0", "EPERM", None),
    ("open_by_handle_at", "open_by_handle_at -100 BUFFER 0", "EPERM", None),
    ("name_to_handle_at", "name_to_handle_at -100 ROOT BUFFER BUFFER 0", "EPERM", Some("EOVERFLOW")),
    ("swapon", "swapon 0 0", "EPERM", None),
    ("quotactl", "quotactl 0 0 0 0", "EPERM", None),
    // The machine. Each is harmless as it is called here: no magic number, no image, no name.
    ("reboot", "reboot 0 0 0 0", "EPERM", None),
    ("kexec_load", "kexec_load 0 0 0 0", "EPERM", None),
    ("init_module", "init_module 0 0 0", "EPERM", None),
    ("settimeofday", "settimeofday 0 0", "EPERM", None),
    ("adjtimex", "adjtimex BUFFER", "EPERM", None),
    ("sethostname", "sethostname 0 0", "EPERM", None),
    ("syslog", "syslog 10 0 0", "EPERM", None),
    ("acct", "acct 0", "EPERM", None),
    ("iopl", "iopl 0", "EPERM", None),
    ("modify_ldt", "modify_ldt 0 BUFFER 0", "ENOSYS", None),
    ("lookup_dcookie", "lookup_dcookie 0 0 0", "ENOSYS", None),
    ("nfsservctl", "nfsservctl 0 0 0", "ENOSYS", None),
    // Kernel code with a history.
    ("bpf", "bpf 0 0 0", "EPERM", None),
    ("perf_event_open", "perf_event_open 0 0 -1 -1 0", "EPERM", Some("EFAULT")),
    ("userfaultfd", "userfaultfd 1", "EPERM", None),
    ("io_uring_setup", "io_uring_setup 0 0", "ENOSYS", Some("EFAULT")),
    ("io_uring_enter", "io_uring_enter -1 0 0 0 0", "ENOSYS", None),
    ("add_key", "add_key USER USER BUFFER 1 -2", "EPERM", Some("POSITIVE")),
    ("keyctl", "keyctl 0 -2 1", "EPERM", Some("POSITIVE")),
    ("request_key", "request_key USER USER 0 0", "EPERM", Some("ENOKEY")),
    ("fanotify_init", "fanotify_init 0x200 0", "EPERM", Some("POSITIVE")),
    // Other processes.
    ("process_vm_readv", "process_vm_readv PID 0 0 0 0 0", "EPERM", Some("0")),
    ("process_vm_writev", "process_vm_writev PID 0 0 0 0 0", "EPERM", Some("0")),
    ("kcmp", "kcmp PID PID 0 0 0", "EPERM", Some("0")),
    ("pidfd_getfd", "pidfd_getfd -1 0 0", "EPERM", Some("EBADF")),
    ("sched_setaffinity", "sched_setaffinity 0 0 BUFFER", "EPERM", Some("EINVAL")),
    ("move_pages", "move_pages 0 0 0 0 0 0", "EPERM", Some("0")),
    // Some uses of what is allowed.
    ("socket-vsock", "socket 40 1 0", "EAFNOSUPPORT", None),
    ("socket-packet", "socket 17 3 0", "EAFNOSUPPORT", Some("EPERM")),
    ("socket-alg", "socket 38 5 0", "EAFNOSUPPORT", None),
    ("socket-bluetooth", "socket 31 1 0", "EAFNOSUPPORT", None),
    ("socket-raw", "socket 2 3 1", "EPERM", Some("EPERM")),
    ("socket-raw6-flags", "socket 10 0x80803 58", "EPERM", Some("EPERM")),
    ("socket-seqpacket", "socket 2 5 0", "EPERM", None),
    ("socket-ping", "socket 2 2 1", "EPROTONOSUPPORT", None),
    ("socket-sctp", "socket 2 1 132", "EPROTONOSUPPORT", None),
    ("socket-mptcp", "socket 2 1 262", "EPROTONOSUPPORT", None),
    ("socket-mptcp-high-bits", "socket 0x500000002 0x500000001 0x500000106", "EPROTONOSUPPORT", None),
    ("netlink-generic", "socket 16 3 16", "EPROTONOSUPPORT", Some("POSITIVE")),
    ("netlink-uevents", "socket 16 3 15", "EPROTONOSUPPORT", Some("POSITIVE")),
    ("netlink-audit", "socket 16 3 9", "EPROTONOSUPPORT", None),
    ("netlink-netfilter", "socket 16 3 12", "EPROTONOSUPPORT", None),
    ("socketpair-tipc", "socketpair 30 1 0 BUFFER", "EAFNOSUPPORT", None),
    ("ioctl-sti", "ioctl NULL_FILE 0x5412 BUFFER", "EPERM", Some("ENOTTY")),
    ("ioctl-sti-high-bits", "ioctl NULL_FILE 0x500005412 BUFFER", "EPERM", Some("ENOTTY")),
    ("ioctl-linux", "ioctl NULL_FILE 0x541c BUFFER", "EPERM", Some("ENOTTY")),
    ("personality-weak", "personality 0x400000", "EPERM", Some("0")),
    // Unknown numbers, and the x32 number of getpid.
    ("unknown", "1000", "ENOSYS", Some("ENOSYS")),
    ("x32", "0x40000027", "ENOSYS", None),
];

async fn answers(provider: &LocalProvider) -> BTreeMap<String, String> {
    let calls: String = CALLS.iter().map(|(label, call, ..)| format!("{label} {call}\n")).collect();
    let (exit, output) = trial::run(provider, shell("exec /usr/bin/python3 caller.py"), |places| {
        trial::put(places, "caller.py", CALLER);
        trial::put(places, "numbers.txt", NUMBERS);
        trial::put(places, "calls.txt", &calls);
    })
    .await
    .unwrap();
    assert_eq!(exit.code, Some(0), "{output}");
    let pairs = output.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(label, answer)| (label.to_owned(), answer.to_owned())).collect()
}

#[tokio::test]
async fn what_is_refused_is_refused_by_the_filter() {
    let host = Host::new().await;
    let filtered = answers(&host.provider).await;
    let dir = tempfile::tempdir().unwrap();
    let unfiltered = answers(&provider_in(dir.path()).without_call_filter()).await;
    let mut wrong = Vec::new();
    for (label, _, expected, without) in CALLS {
        let (with, other) = (filtered[*label].as_str(), unfiltered[*label].as_str());
        if with == "NOT_HERE" {
            println!("left out: {label} does not exist on this architecture");
            continue;
        }
        if with != *expected || without.is_some_and(|without| without != other) {
            wrong.push(format!(
                "{label}: {with} under the filter, {other} without (wanted {expected}, {without:?})"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let differ = filtered.iter().filter(|(label, answer)| unfiltered[*label] != **answer).count();
    assert!(differ > 20, "the filter changed only {differ} answers");
}

/// Asks for the process id the 32-bit way.
const FOREIGN: &str = r#"
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
print("answered", call() > 0)
"#;

#[tokio::test]
#[cfg(target_arch = "x86_64")]
async fn a_call_by_another_abi_kills_the_program() {
    let host = Host::new().await;
    let dir = tempfile::tempdir().unwrap();
    let unfiltered = provider_in(dir.path()).without_call_filter();
    let run = |provider| {
        trial::run(provider, shell("exec /usr/bin/python3 foreign.py"), |places| {
            trial::put(places, "foreign.py", FOREIGN);
        })
    };
    let (exit, output) = run(&host.provider).await.unwrap();
    assert_eq!(exit.signal, Some(nix::sys::signal::Signal::SIGSYS as i32), "{output}");
    let (exit, output) = run(&unfiltered).await.unwrap();
    if exit.signal.is_some() {
        println!("left out: this kernel has no 32-bit calls at all ({exit:?})");
    } else {
        assert!(output.contains("answered True"), "{output}");
    }
}

#[tokio::test]
async fn the_filter_is_on_for_every_process_inside() {
    let host = Host::new().await;
    // The bridge is started beside the command and may come after it.
    let script = "until cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -q 'sunaba-worker bridge'; do sleep 0.02; done
        for p in /proc/[0-9]*; do [ $p = /proc/1 ] || grep -H ^Seccomp: $p/status; done";
    let (_, output) = host.run(script).await;
    let modes: Vec<_> = output.lines().collect();
    assert!(modes.len() >= 3, "guest, bridge, shell: {output}");
    assert!(modes.iter().all(|line| line.ends_with("\t2")), "{output}");
}
