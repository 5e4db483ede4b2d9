# What attempts aim at: a process that holds a canary in every place that another process could
# reach, and leaves a track when it is touched. Ends with its standard input.
import ctypes, json, mmap, os, signal, socket, sys, threading

canary, decoy, tracks, ports = sys.argv[1], sys.argv[2], sys.argv[3], [int(p) for p in sys.argv[4].split(",")]
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
libc.prctl(15, b"sunaba-decoy", 0, 0, 0)
libc.prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)  # Where Yama is in force: anyone may trace it.
secret = canary.encode()


def touched(how):
    if tracks:
        with open(os.path.join(tracks, how), "a") as track:
            track.write("x")


def serve(listener, how):
    while True:
        stream, _ = listener.accept()
        touched(how)
        threading.Thread(target=answer, args=(stream,), daemon=True).start()


def answer(stream):
    stream.settimeout(2)
    try:
        stream.recv(4096)
        stream.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s\n" % (len(secret) + 1, secret))
    except OSError:
        pass
    stream.close()


def listen(family, address, how):
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listener.bind(address)
    listener.listen(32)
    threading.Thread(target=serve, args=(listener, how), daemon=True).start()
    return listener.getsockname()


def datagrams(port):
    asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asked.bind(("0.0.0.0", port))
    while True:
        question, who = asked.recvfrom(2048)
        touched("datagram")
        # A DNS answer as far as its first twelve bytes, and the canary.
        asked.sendto(question[:2] + b"\x81\x80" + question[4:12] + secret, who)


def forward(stream):
    """A proxy without any rule: the guard that the egress proxy stands for is not there."""
    head = b""
    while b"\r\n\r\n" not in head:
        piece = stream.recv(4096)
        if not piece:
            return
        head += piece
    method, target = head.split(b" ")[:2]
    name = target if method == b"CONNECT" else target.split(b"//")[1].split(b"/")[0]
    host, _, port = name.decode().rpartition(":") if name.count(b":") else (name.decode(), "", "80")
    if name.startswith(b"[") and name.endswith(b"]"):
        host, port = name.decode(), "80"
    other = socket.create_connection((host.strip("[]"), int(port)), 3)
    if method == b"CONNECT":
        stream.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        head = stream.recv(4096)
    other.sendall(head)
    stream.sendall(other.recv(4096))
    other.close()
    stream.close()


def proxy(port):
    listener = socket.create_server(("127.0.0.1", port), backlog=32)
    while True:
        stream, _ = listener.accept()
        threading.Thread(target=forward, args=(stream,), daemon=True).start()


said = {"pid": os.getpid()}
if tracks:
    signal.signal(signal.SIGUSR1, lambda *_: touched("signal"))
    os.chdir(decoy)
    held = os.open("deleted", os.O_RDWR | os.O_CREAT, 0o600)
    os.write(held, secret)
    os.unlink("deleted")
    buffer = ctypes.create_string_buffer(secret)
    said.update(fd=held, address=ctypes.addressof(buffer), length=len(secret))
    listen(socket.AF_UNIX, os.path.join(decoy, "socket"), "socket")
    os.chmod(os.path.join(decoy, "socket"), 0o777)
    said["abstract"] = "sunaba-decoy-%d" % os.getpid()
    listen(socket.AF_UNIX, "\0" + said["abstract"], "abstract")
    key = int.from_bytes(os.urandom(3), "big") + 0x10000
    segment = libc.shmget(key, 4096, 0o1666)
    memory = libc.shmat(segment, None, 0)
    ctypes.memmove(memory, secret, len(secret))
    said["shm_key"] = key
    queue = "sunaba-decoy-%d" % os.getpid()
    number = {"x86_64": (240, 242, 248, 250), "aarch64": (180, 182, 217, 219)}[os.uname().machine]
    os.umask(0)
    opened = libc.syscall(number[0], queue.encode(), os.O_RDWR | os.O_CREAT, 0o666, None)
    for _ in range(2):
        libc.syscall(number[1], opened, secret, len(secret), 0, None)
    said["queue"] = queue
    key_id = libc.syscall(number[2], b"user", b"sunaba-decoy-%d" % os.getpid(), secret, len(secret), -4)
    libc.syscall(number[3], 5, key_id, 0x3F3F0000)
    said["key_id"] = key_id

said["port"] = listen(socket.AF_INET, ("0.0.0.0", ports[0]), "connection")[1]
listen(socket.AF_INET6, ("::", said["port"]), "connection6")
threading.Thread(target=datagrams, args=(said["port"],), daemon=True).start()
for port in ports[1:]:
    if port == 3128:
        threading.Thread(target=proxy, args=(port,), daemon=True).start()
    else:
        listen(socket.AF_INET, ("0.0.0.0", port), "connection")
print(json.dumps(said), flush=True)
sys.stdin.read()
if tracks:
    libc.shmctl(segment, 0, None)
    libc.syscall({"x86_64": 241, "aarch64": 181}[os.uname().machine], queue.encode())
    libc.syscall(number[3], 3, key_id)
