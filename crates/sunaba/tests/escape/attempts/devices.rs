//! Devices. Without the guard they are only opened, never written to.

use crate::attempt::{Attempt, Without, py};

const DEV: &str = "a /dev of its own with seven harmless devices";

macro_rules! device {
    ($name:literal, $path:literal) => {
        py($name, DEV, Without::Root, concat!("if opens(\"", $path, "\", os.O_RDONLY)[1]:\n    through()\n"))
    };
}

pub(crate) const ATTEMPTS: &[Attempt] = &[
    py(
        "make-a-device",
        "no CAP_MKNOD",
        Without::Root,
        r#"
os.mknod("null", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
if len(os.read(os.open("null", os.O_RDONLY), 1)) == 1:
    through()
"#,
    ),
    py(
        "make-a-disk",
        "no CAP_MKNOD",
        Without::Root,
        r#"
number = os.environ["DISK"]
if not number:
    absent("no disk")
try:
    os.mknod("disk", 0o600 | stat.S_IFBLK, os.makedev(*map(int, number.split(":"))))
    if len(os.read(os.open("disk", os.O_RDONLY), 1)) == 1:
        through()
except PermissionError as error:
    kept_from_root(error)
"#,
    ),
    py(
        "open-the-disk",
        DEV,
        Without::Root,
        r#"
disks = [path for path in glob.glob("/dev/*") if stat.S_ISBLK(os.stat(path).st_mode)]
if not disks and os.environ["SIDE"] == "without":
    absent("no disk")
for disk in disks:
    os.open(disk, os.O_RDONLY)
    through()
    break
"#,
    ),
    device!("memory-device", "/dev/mem"),
    device!("port-device", "/dev/port"),
    device!("kernel-log-device", "/dev/kmsg"),
    device!("loop-control", "/dev/loop-control"),
    device!("fuse", "/dev/fuse"),
    device!("kvm", "/dev/kvm"),
    device!("tunnel-device", "/dev/net/tun"),
    device!("userfaultfd-device", "/dev/userfaultfd"),
    device!("vsock-device", "/dev/vsock"),
    device!("hardware-random", "/dev/hwrng"),
    device!("console", "/dev/tty0"),
];
