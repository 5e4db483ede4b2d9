//! Mounts, roots and namespaces within the sandbox.

use crate::attempt::{Attempt, Without, py, sh};

const CAPABILITIES: &str = "no capability, and system calls are filtered";
const USERNS: &str = "no further user namespace";

pub(crate) const ATTEMPTS: &[Attempt] = &[
    sh("mount-tmpfs", CAPABILITIES, Without::NamespaceRoot, "mount -t tmpfs none . && through"),
    sh("mount-proc", CAPABILITIES, Without::NamespaceRoot, "mount -t proc none . && through"),
    sh(
        "mount-bind",
        CAPABILITIES,
        Without::NamespaceRoot,
        "mkdir from to && mount --bind from to && through",
    ),
    sh(
        "mount-overlay",
        CAPABILITIES,
        Without::NamespaceRoot,
        r#"mkdir lower upper work to
mount -t overlay -o userxattr,lowerdir=lower,upperdir=upper,workdir=work none to && through"#,
    ),
    sh(
        "remount-writable",
        CAPABILITIES,
        Without::NamespaceRoot,
        r#"for path in ${RO_PATH:-/usr /etc /run/sunaba}; do
    mount -o remount,bind,rw "$path" && touch "$path/planted" && through
done"#,
    ),
    sh(
        "unmount",
        CAPABILITIES,
        Without::NamespaceRoot,
        r#"for path in ${RO_PATH:-/etc /proc /usr /tmp}; do umount -l "$path" && through; done"#,
    ),
    py(
        "mount-by-new-calls",
        CAPABILITIES,
        Without::NamespaceRoot,
        r#"
context, error = call("fsopen", b"tmpfs", 0)
if context >= 0:
    call("fsconfig", context, 6, None, None, 0)
    if call("fsmount", context, 0, 0)[0] >= 0:
        through()
"#,
    ),
    py(
        "clone-a-tree",
        CAPABILITIES,
        Without::NamespaceRoot,
        r#"
if call("open_tree", -100, b".", 1)[0] >= 0:
    through()
"#,
    ),
    py(
        "change-a-mount",
        CAPABILITIES,
        Without::NamespaceRoot,
        r#"
attributes = (ctypes.c_uint64 * 4)(0, 2, 0, 0)  # clears nosuid
LIBC.mount(b"none", b".", b"tmpfs", 0, None)
for place in (b".", b"/tmp", b"/dev"):
    if call("mount_setattr", -100, place, 0, attributes, 32)[0] == 0:
        through()
"#,
    ),
    py(
        "pivot-the-root",
        CAPABILITIES,
        Without::NamespaceRoot,
        r#"
here = os.getcwd().encode()
LIBC.mount(b"none", b"/", None, 1 << 18 | 1 << 14, None)
LIBC.mount(here, here, None, 1 << 12, None)
os.chdir(here)
if call("pivot_root", b".", b".")[0] == 0:
    through()
"#,
    ),
    sh("change-the-root", CAPABILITIES, Without::NamespaceRoot, "chroot / true && through"),
    sh("user-namespace", USERNS, Without::Bubblewrap, "unshare -U true && through"),
    sh(
        "root-in-a-user-namespace",
        USERNS,
        Without::Bubblewrap,
        "unshare -Urm sh -c 'mount -t tmpfs none /tmp' && through",
    ),
    sh("mount-namespace", CAPABILITIES, Without::NamespaceRoot, "unshare -m true && through"),
    sh("network-namespace", CAPABILITIES, Without::NamespaceRoot, "unshare -n true && through"),
    sh("pid-namespace", CAPABILITIES, Without::NamespaceRoot, "unshare -p -f true && through"),
    sh(
        "other-namespaces",
        CAPABILITIES,
        Without::NamespaceRoot,
        "for which in -i -u -C -T; do unshare $which true && through; done",
    ),
    py(
        "clone-into-a-user-namespace",
        USERNS,
        Without::Bubblewrap,
        r#"
child, error = call("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
if child == 0:
    os._exit(0)
if child > 0:
    os.waitpid(child, 0)
    through()
"#,
    ),
    py(
        "clone3-into-a-user-namespace",
        USERNS,
        Without::Bubblewrap,
        r#"
arguments = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, signal.SIGCHLD)
child, error = call("clone3", arguments, 88)
if child == 0:
    os._exit(0)
if child > 0:
    os.waitpid(child, 0)
    through()
"#,
    ),
    sh("enter-namespaces", CAPABILITIES, Without::NamespaceRoot, "nsenter -t 1 -m -u -i -n true && through"),
    py(
        "enter-by-descriptor",
        CAPABILITIES,
        Without::NamespaceRoot,
        r#"
if call("setns", os.pidfd_open(1), 0x00020000 | 0x04000000)[0] == 0:
    through()
"#,
    ),
];
