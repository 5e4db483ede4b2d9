//! Other sandboxes: what one made for itself must be out of another's reach. Without the guard the same
//! is done in the sandbox whose things they are, or by the server's own user.

use crate::attempt::{Attempt, Without, py, sh};

const APART: &str = "each sandbox has namespaces of its own";
const MOUNTS: &str = "a mount namespace without the server's data";

pub(crate) const ATTEMPTS: &[Attempt] = &[
    sh("its-workspace", APART, Without::Victim, "cat /workspace/private-of-victim"),
    sh("its-home", APART, Without::Victim, "cat /home/agent/private-of-victim"),
    sh(
        "its-tmp",
        APART,
        Without::Victim,
        "cat /tmp/private-of-victim /var/tmp/private-of-victim /dev/shm/private-of-victim",
    ),
    sh(
        "its-processes",
        APART,
        Without::Victim,
        "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -a '^PRIVATE_OF_VICTIM='",
    ),
    py("its-loopback", APART, Without::Victim, r#"fetch(("127.0.0.1", 5599))"#),
    py(
        "its-abstract-socket",
        APART,
        Without::Victim,
        r#"
stream = socket.socket(socket.AF_UNIX)
stream.settimeout(2)
stream.connect("\0private-of-victim")
print(stream.recv(300))
"#,
    ),
    sh(
        "its-files-on-the-host",
        MOUNTS,
        Without::Server,
        r#"find "$VICTIM_DIR" ${VICTIM_ROOT:+"$VICTIM_ROOT/workspace"} -name private-of-victim -exec cat {} +"#,
    ),
    sh(
        "its-settings-on-the-host",
        MOUNTS,
        Without::Server,
        r#"[ "$SIDE" = inside ] || [ -e "$VICTIM_DIR/spec.json" ] || absent 'no shim holds it'
head -c 1 "$VICTIM_DIR/spec.json" && through"#,
    ),
    py(
        "its-door",
        MOUNTS,
        Without::Server,
        r#"
stream = socket.socket(socket.AF_UNIX)
stream.settimeout(3)
os.chdir(os.environ["VICTIM_DIR"] + "/door")
stream.connect("gateway.sock")
stream.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
if stream.recv(300).startswith(b"HTTP/1.1"):
    through()
"#,
    ),
    py(
        "its-shim",
        MOUNTS,
        Without::Server,
        r#"
stream = socket.socket(socket.AF_UNIX)
stream.settimeout(3)
os.chdir(os.environ["VICTIM_DIR"])
if not os.path.exists("control.sock") and os.environ["SIDE"] == "without":
    absent("no shim holds it")
stream.connect("control.sock")
stream.sendall(b'{"do":"status"}\n')
if b"is" in stream.recv(300):
    through()
"#,
    ),
    py(
        "its-door-by-a-relative-path",
        MOUNTS,
        Without::Server,
        r#"
start = os.environ.get("DOOR", "/run/sunaba")
stream = socket.socket(socket.AF_UNIX)
stream.settimeout(3)
os.chdir(start)
for path in ("../../%s/door" % os.environ["VICTIM_ID"], "../%s" % os.environ["VICTIM_ID"]):
    if os.path.isdir(path):
        os.chdir(path)
        stream.connect("gateway.sock")
        through()
        break
"#,
    ),
    py(
        "the-container-daemon",
        MOUNTS,
        Without::Server,
        r#"
places = ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", os.environ["DAEMON_SOCKET"]]
places = [place for place in places if place and os.path.exists(place)]
if not places and os.environ["SIDE"] == "without":
    absent("no container daemon")
for place in places:
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(place)
    through()
"#,
    ),
];
