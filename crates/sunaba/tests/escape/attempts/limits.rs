//! Using up what others need. Each attempt is bounded by itself: it takes a known amount, somewhat more
//! than the limit that it must meet inside, and outside it gives it back at once. It gets through only if
//! it still holds what it took a while later: where no kernel limit is at hand, the sandbox is looked at
//! several times a second and ended.

use crate::attempt::{Attempt, Without, py};

pub(crate) const ATTEMPTS: &[Attempt] = &[
    py(
        "many-processes",
        "a limit on processes",
        Without::User,
        r#"
children = []
try:
    while len(children) < 400:
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
    time.sleep(3)
    through()
except OSError as error:
    print(len(children), error)
for child in children:
    os.kill(child, signal.SIGKILL)
"#,
    ),
    py(
        "many-threads",
        "a limit on processes that counts threads",
        Without::User,
        r#"
import threading
over = threading.Event()
started = 0
try:
    for _ in range(400):
        threading.Thread(target=over.wait, daemon=True).start()
        started += 1
    time.sleep(3)
    through()
except RuntimeError as error:
    print(started, error)
over.set()
"#,
    ),
    py(
        "fill-the-disk",
        "a limit on disk",
        Without::User,
        r#"
places = os.environ.get("FILL_DIRS", "/workspace /home/agent").split()
try:
    for place in places:
        with open(place + "/fill", "wb") as file:
            for _ in range(400):
                file.write(b"x" * (1 << 20))
            file.flush()
            os.fsync(file.fileno())
    time.sleep(3)
    through()
finally:
    for place in places:
        if os.path.exists(place + "/fill"):
            os.unlink(place + "/fill")
"#,
    ),
    py(
        "fill-the-disk-without-a-name",
        "removed files count as disk for as long as they are held",
        Without::User,
        r#"
place = os.environ.get("FILL_DIRS", "/workspace").split()[0]
with open(place + "/fill", "wb") as file:
    os.unlink(place + "/fill")
    for _ in range(400):
        file.write(b"x" * (1 << 20))
    file.flush()
    os.fsync(file.fileno())
    time.sleep(6)
    through()
"#,
    ),
    py(
        "fill-the-disk-by-mapping",
        "removed files count as disk for as long as they are mapped",
        Without::User,
        r#"
import mmap
place = os.environ.get("FILL_DIRS", "/workspace").split()[0]
with open(place + "/fill", "w+b") as file:
    os.unlink(place + "/fill")
    for _ in range(400):
        file.write(b"x" * (1 << 20))
    file.flush()
    os.fsync(file.fileno())
    held = mmap.mmap(file.fileno(), 0)
time.sleep(6)
through()
"#,
    ),
    py(
        "fill-the-disk-behind-a-shut-directory",
        "directories that are shut to their owner are counted",
        Without::User,
        r#"
place = os.environ.get("FILL_DIRS", "/workspace").split()[0] + "/shut"
os.mkdir(place, 0o300)
try:
    with open(place + "/fill", "wb") as file:
        for _ in range(400):
            file.write(b"x" * (1 << 20))
        file.flush()
        os.fsync(file.fileno())
    time.sleep(6)
    through()
finally:
    os.chmod(place, 0o700)
    if os.path.exists(place + "/fill"):
        os.unlink(place + "/fill")
    os.rmdir(place)
"#,
    ),
    py(
        "take-memory",
        "a limit on memory",
        Without::User,
        r#"
held = []
for _ in range(80):
    held.append(bytearray(os.urandom(1 << 10) * (10 << 10)))
    time.sleep(0.02)
time.sleep(2)
through()
"#,
    ),
    py(
        "take-memory-as-files",
        "files in memory count as memory",
        Without::User,
        r#"
places = os.environ.get("FILL_DIRS", "/tmp /dev/shm").split()
try:
    for place in places:
        with open(place + "/fill", "wb") as file:
            for _ in range(400):
                file.write(b"x" * (1 << 20))
                time.sleep(0.002)
    time.sleep(2)
    through()
finally:
    for place in places:
        if os.path.exists(place + "/fill"):
            os.unlink(place + "/fill")
"#,
    ),
    py(
        "take-memory-by-descriptor",
        "anonymous files count as memory",
        Without::User,
        r#"
held = os.memfd_create("fill")
for _ in range(800):
    os.write(held, b"x" * (1 << 20))
    time.sleep(0.002)
time.sleep(2)
through()
"#,
    ),
    py(
        "take-memory-as-segments",
        "shared memory that nobody has attached counts as memory",
        Without::User,
        r#"
LIBC.shmat.restype = ctypes.c_void_p
LIBC.shmdt.argtypes = [ctypes.c_void_p]
held = []
try:
    for _ in range(100):
        segment = LIBC.shmget(0, ctypes.c_size_t(8 << 20), 0o1600)
        if segment < 0:
            raise OSError(ctypes.get_errno(), "shmget")
        held.append(segment)
        place = LIBC.shmat(segment, None, 0)
        ctypes.memset(place, 1, 8 << 20)
        LIBC.shmdt(place)
        time.sleep(0.01)
    time.sleep(2)
    through()
finally:
    for segment in held:
        LIBC.shmctl(segment, 0, None)
"#,
    ),
];

/// Stopped by a kernel's own limit on processor time only.
pub(crate) const PROCESSOR: Attempt = py(
    "take-the-processors",
    "a limit on processor time",
    Without::User,
    r#"
children = []
began = time.time()
for _ in range(8):
    child = os.fork()
    if child == 0:
        while time.time() < began + 4:
            pass
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
used = os.times()
share = (used.children_user + used.children_system) / (time.time() - began)
print(share)
if share > 0.3:
    through()
"#,
);
