//! A container is closed where a local sandbox is: the same calls, kernel files and resource limits.

use sunaba_sandbox::Limits;

use crate::support::Host;

/// Prints what each try answered: `ok`, or the error's name.
const TRIES: &str = r"
import ctypes, errno, os, resource, socket
def tried(label, what):
    try:
        what(); print(label, 'ok')
    except OSError as error:
        print(label, errno.errorcode[error.errno])
libc = ctypes.CDLL(None, use_errno=True)
def ioctl(number):
    null = os.open('/dev/null', os.O_RDWR)
    if libc.ioctl(null, ctypes.c_ulong(number), ctypes.create_string_buffer(64)) < 0:
        raise OSError(ctypes.get_errno(), 'ioctl')
for number in [0x5401, 0x5411, 0x5412, 0x500005412, 0x5413, 0x541b, 0x541c, 0x541d]:
    tried('ioctl-%x' % number, lambda: ioctl(number))
for family, kind, protocol in [
    (1, 1, 0), (1, 5, 0), (2, 1, 0), (2, 1, 6), (2, 0x80802, 17), (10, 0x80801, 6), (16, 3, 0), (16, 0x80002, 0),
    (2, 3, 1), (2, 2, 1), (2, 1, 132), (2, 1, 262), (10, 3, 58), (16, 3, 4), (16, 3, 15), (16, 3, 16), (17, 3, 0),
    (40, 1, 0),
]:
    def make(): 
        made = libc.socket(family, kind, protocol)
        if made < 0: raise OSError(ctypes.get_errno(), 'socket')
        os.close(made)
    tried('socket-%d-%x-%d' % (family, kind, protocol), make)
for name in ['bus', 'driver', 'fs', 'irq']:
    if os.path.isdir('/proc/' + name): print('listed', name, os.listdir('/proc/' + name))
for name in ['mtrr', 'sysrq-trigger', 'kallsyms', 'timer_list']:
    if os.path.exists('/proc/' + name): print('character', name, os.stat('/proc/' + name).st_mode >> 12 == 2)
print('core', resource.getrlimit(resource.RLIMIT_CORE))
print('files', resource.getrlimit(resource.RLIMIT_NOFILE))
";

#[tokio::test]
async fn it_is_closed_where_a_local_sandbox_is() {
    let Some(host) = Host::new("the same walls around a container") else { return };
    let none = Limits { memory_bytes: None, cpu_millis: None, pids: None, disk_bytes: None };
    let (exit, said) = host.run(&format!("python3 - <<'END'\n{TRIES}\nEND"), none).await;
    assert_eq!(exit.code, Some(0), "{said}");
    let answers = |label: &str| {
        let found = said.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("no {label} in {said}")).to_owned()
    };
    let refused = |label: &str| {
        // A daemon before version 23 knows one error only for what is not allowed.
        assert!(["ENOSYS", "EPERM"].contains(&answers(label).as_str()), "{label}: {said}");
    };
    // These reach the file, which is no terminal.
    for number in ["5401", "5411", "5413", "541b", "541d"] {
        assert_eq!(answers(&format!("ioctl-{number}")), "ENOTTY", "{said}");
    }
    for number in ["5412", "500005412", "541c"] {
        refused(&format!("ioctl-{number}"));
    }
    for open in ["1-1-0", "1-5-0", "2-1-0", "2-1-6", "2-80802-17", "10-80801-6", "16-3-0", "16-80002-0"] {
        assert_eq!(answers(&format!("socket-{open}")), "ok", "{said}");
    }
    for shut in [
        "2-3-1", "2-2-1", "2-1-132", "2-1-262", "10-3-58", "16-3-4", "16-3-15", "16-3-16", "17-3-0", "40-1-0",
    ] {
        refused(&format!("socket-{shut}"));
    }
    let covered: Vec<&str> = said.lines().filter(|line| line.starts_with("listed")).collect();
    assert!(covered.len() > 1 && covered.iter().all(|line| line.ends_with(" []")), "{said}");
    assert!(!said.contains("False"), "every covered file is /dev/null: {said}");
    assert_eq!(answers("core"), "(0, 0)", "{said}");
    let files = answers("files");
    let (soft, hard) = files.trim_matches(['(', ')']).split_once(", ").unwrap();
    let (soft, hard): (u64, u64) = (soft.parse().unwrap(), hard.parse().unwrap());
    assert!(soft <= 1024 && hard <= 65_536, "{said}");
}

#[tokio::test]
async fn a_container_cannot_hide_what_it_holds() {
    let Some(host) = Host::new("hidden disk of a container") else { return };
    let limits = Limits { memory_bytes: None, cpu_millis: None, pids: None, disk_bytes: Some(64 << 20) };
    for (trick, then) in [
        ("removed", "os.unlink('d/fill')"),
        ("shut", "os.chmod('d', 0o300)"),
        ("shut whole", "os.chmod('d', 0)"),
    ] {
        let script = format!(
            "python3 - <<'END'\nimport os, time\nos.mkdir('d')\nfile = open('d/fill', 'wb')\n{then}\n\
             for _ in range(200): file.write(b'x' * (1 << 20))\nfile.flush()\ntime.sleep(40)\nprint('kept it')\nEND"
        );
        let (exit, said) = host.run(&script, limits).await;
        // Where it has a disk of its own, that is full; elsewhere it is ended.
        let stopped = exit.ended_for.as_deref() == Some("disk") || said.contains("No space left");
        assert!(stopped && !said.contains("kept it"), "{trick}: {exit:?} {said}");
    }
}
