//! The server's own things: keys and tokens wherever they might lie, the database, the processes.

use crate::attempt::{Attempt, Without, py, sh};

const KEPT: &str = "keys stay with the server; the sandbox sees none of its files and processes";

pub(crate) const ATTEMPTS: &[Attempt] = &[
    py(
        "keys-in-files",
        KEPT,
        Without::Server,
        concat!(
            include_str!("../scripts/search.py"),
            r#"
roots = os.environ["SEARCH_ROOTS"].split(":")
for root in roots:
    for place, directories, files in os.walk(root):
        directories[:] = [d for d in directories if os.path.join(place, d) not in ("/proc", "/sys", "/dev", "/usr")]
        for name in files:
            path = os.path.join(place, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                search(path)
"#
        ),
    ),
    py(
        "keys-in-environments",
        KEPT,
        Without::Server,
        concat!(
            include_str!("../scripts/search.py"),
            r#"
for pid in visible():
    search("/proc/%s/environ" % pid)
"#
        ),
    ),
    py(
        "keys-in-arguments",
        KEPT,
        Without::Server,
        concat!(
            include_str!("../scripts/search.py"),
            r#"
for pid in visible():
    search("/proc/%s/cmdline" % pid)
"#
        ),
    ),
    py(
        "keys-in-memory",
        KEPT,
        Without::Server,
        concat!(
            include_str!("../scripts/search.py"),
            r#"
for pid in visible():
    try:
        memory = open("/proc/%s/mem" % pid, "rb", 0)
        for line in open("/proc/%s/maps" % pid):
            if " rw" not in line:
                continue
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            memory.seek(begin)
            held = memory.read(min(end - begin, 32 << 20))
            for number, needle in enumerate(needles):
                if needle in held:
                    print("needle", number, "in the memory of", pid, flush=True)
                    through()
    except OSError as error:
        pass
"#
        ),
    ),
    sh(
        "read-the-database",
        KEPT,
        Without::Server,
        r#"head -c 15 "$DATA/sunaba.db" | grep -q 'SQLite format 3' && through"#,
    ),
    py(
        "write-the-database",
        KEPT,
        Without::Server,
        r#"
os.close(os.open(os.environ["DATA"] + "/sunaba.db", os.O_RDWR))
through()
"#,
    ),
    sh(
        "the-servers-mirrors",
        KEPT,
        Without::Server,
        r#"ls "$DATA"/git/*/HEAD "$DATA"/*/*.git/HEAD 2>/dev/null | grep -q HEAD && through"#,
    ),
    sh(
        "the-servers-process",
        KEPT,
        Without::Server,
        r#"tr '\0' ' ' < "/proc/$SERVER_PID/cmdline" | grep -q 'sunaba serve' && through"#,
    ),
    py(
        "the-servers-socket",
        "a network namespace with loopback only",
        Without::User,
        r#"
stream = socket.create_connection(("127.0.0.1", int(os.environ["SERVER_PORT"])), 3)
through()
"#,
    ),
];
