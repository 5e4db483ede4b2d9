//! The host's files.

use crate::attempt::{Attempt, Without, py, sh};

const MOUNTS: &str = "a mount namespace with nothing of the host but /usr";

pub(crate) const ATTEMPTS: &[Attempt] = &[
    sh("read-a-file", MOUNTS, Without::User, r#"cat "$DECOY/file""#),
    sh(
        "write-a-file",
        MOUNTS,
        Without::User,
        r#"[ -e "$DECOY/file" ] && echo x >> "$DECOY/scribble" && through"#,
    ),
    sh("list-a-directory", MOUNTS, Without::User, r#"ls "$DECOY""#),
    sh(
        "link-a-file-in",
        MOUNTS,
        Without::User,
        r#"cd "$DECOY" && ln file hard-link && cat hard-link; rm -f hard-link"#,
    ),
    sh("follow-a-symlink-out", MOUNTS, Without::User, r#"ln -s "$DECOY/file" way && cat way"#),
    sh("climb-with-dots", MOUNTS, Without::User, r#"cat "../../../../../../../../..$DECOY/file""#),
    sh(
        "roots-of-processes",
        "a pid namespace",
        Without::User,
        r#"for root in /proc/[0-9]*/root; do cat "$root$DECOY/file" 2>/dev/null; done"#,
    ),
    sh(
        "directories-of-processes",
        "a pid namespace",
        Without::User,
        r#"for cwd in /proc/[0-9]*/cwd; do cat "$cwd/file" 2>/dev/null; done"#,
    ),
    sh(
        "open-files-of-processes",
        "a pid namespace",
        Without::User,
        r#"for file in /proc/[0-9]*/fd/*; do [ -f "$file" ] && head -c 200 "$file" 2>/dev/null; done | tr -d '\0' | grep -a canary"#,
    ),
    sh(
        "inherited-descriptors",
        "no descriptor of the host is handed down",
        Without::User,
        r#"exec 9<"$DECOY"
python3 - <<'END'
import os
for parent in (os.getpid(), os.getppid(), 1, 2, 3):
    for fd in os.listdir("/proc/%d/fd" % parent) if os.path.isdir("/proc/%d/fd" % parent) else []:
        try:
            held = os.open("/proc/%d/fd/%s" % (parent, fd), os.O_RDONLY | os.O_DIRECTORY)
            print(open(os.open("file", os.O_RDONLY, dir_fd=held)).read())
        except OSError:
            pass
END"#,
    ),
    py(
        "open-by-handle",
        "no CAP_DAC_READ_SEARCH",
        Without::Root,
        r#"
raw = bytes.fromhex(os.environ["HANDLE"])
handle = ctypes.create_string_buffer(raw, len(raw))
for place in (os.environ["DECOY"], "/workspace", "/etc", "/usr", "/"):
    if os.path.isdir(place):
        opened, error = call("open_by_handle_at", os.open(place, os.O_RDONLY), handle, os.O_RDONLY)
        if opened >= 0:
            print(os.read(opened, 200).decode())
"#,
    ),
    sh(
        "write-to-system-directories",
        "everything of the system is read-only",
        Without::User,
        r#"for dir in ${SYSTEM_DIRS:-/usr /usr/bin /usr/lib /etc /opt/sunaba /run/sunaba /}; do
    touch "$dir/planted" 2>&1 && through
done"#,
    ),
    sh(
        "overwrite-the-worker",
        "the worker is bound read-only",
        Without::User,
        r#"for worker in ${WORKER:-/opt/sunaba/sunaba-worker}; do
    [ -e "$worker" ] && cp -f /bin/true "$worker" && through
done"#,
    ),
    sh(
        "objects-of-another-repository",
        MOUNTS,
        Without::User,
        r#"git init -q . && echo "$DECOY/repo/.git/objects" > .git/objects/info/alternates && git cat-file -p "$DECOY_OBJECT""#,
    ),
    sh(
        "write-into-the-mirror",
        "the mirror's objects are bound read-only",
        Without::User,
        r#"for objects in ${MIRROR_OBJECTS:-/run/sunaba-mirror/objects}; do
    mkdir -p "$objects/info" && echo "$DECOY" > "$objects/info/planted" && through
done"#,
    ),
];
