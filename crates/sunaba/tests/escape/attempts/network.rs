//! Addresses: the host's, private ones, the metadata service, names; directly and through the proxy.

use crate::attempt::{Attempt, Without, py, sh};

const NETWORK: &str = "a network namespace with loopback only";
const PROXY: &str = "the egress proxy refuses addresses that are not public";

macro_rules! proxied {
    ($name:literal, $target:literal) => {
        sh(
            $name,
            PROXY,
            Without::NamespaceRoot,
            concat!("curl -sS --noproxy '' --max-time 8 -x http://127.0.0.1:3128 ", $target),
        )
    };
}

macro_rules! tunnelled {
    ($name:literal, $target:literal) => {
        sh(
            $name,
            PROXY,
            Without::NamespaceRoot,
            concat!("curl -sS --noproxy '' --max-time 8 -p -x http://127.0.0.1:3128 ", $target),
        )
    };
}

pub(crate) const ATTEMPTS: &[Attempt] = &[
    py("loopback", NETWORK, Without::User, r#"fetch(("127.0.0.1", int(os.environ["PORT"])))"#),
    py("loopback-6", NETWORK, Without::User, r#"fetch(("::1", int(os.environ["PORT"])))"#),
    py(
        "the-hosts-address",
        NETWORK,
        Without::User,
        r#"fetch((os.environ["HOST_IP"], int(os.environ["PORT"])))"#,
    ),
    py(
        "datagram",
        NETWORK,
        Without::User,
        r#"
asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asked.settimeout(2)
asked.sendto(b"hello, host!", ("127.0.0.1", int(os.environ["PORT"])))
print(asked.recv(2048))
"#,
    ),
    py(
        "name-server",
        NETWORK,
        Without::User,
        r#"
asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asked.settimeout(2)
question = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0\7example\3org\0\0\1\0\1"
asked.sendto(question, (os.environ["HOST_IP"], int(os.environ["PORT"])))
print(asked.recv(2048))
"#,
    ),
    py("metadata-address", NETWORK, Without::NamespaceRoot, r#"fetch(("169.254.169.254", 80))"#),
    py("private-address", NETWORK, Without::NamespaceRoot, r#"fetch(("10.11.12.13", 80))"#),
    py(
        "raw-packets",
        "no CAP_NET_RAW",
        Without::NamespaceRoot,
        r#"
socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
through()
"#,
    ),
    sh(
        "take-an-address",
        "no CAP_NET_ADMIN",
        Without::NamespaceRoot,
        "ip addr add 10.99.99.99/32 dev lo && through",
    ),
    sh(
        "abstract-sockets-listed",
        NETWORK,
        Without::User,
        r#"grep -q sunaba-decoy /proc/net/unix && through"#,
    ),
    py(
        "abstract-socket",
        NETWORK,
        Without::User,
        r#"
stream = socket.socket(socket.AF_UNIX)
stream.settimeout(2)
stream.connect("\0" + os.environ["ABSTRACT"])
stream.sendall(b"x")
print(stream.recv(300))
"#,
    ),
    py(
        "socket-file",
        "a mount namespace",
        Without::User,
        r#"
stream = socket.socket(socket.AF_UNIX)
stream.settimeout(2)
stream.connect(os.environ["DECOY"] + "/socket")
stream.sendall(b"x")
print(stream.recv(300))
"#,
    ),
    proxied!("proxy-to-metadata", "http://169.254.169.254/"),
    proxied!("proxy-to-loopback", "http://127.0.0.1:$PORT/"),
    proxied!("proxy-to-loopback-6", "'http://[::1]:'$PORT/"),
    proxied!("proxy-to-mapped-loopback", "'http://[::ffff:127.0.0.1]:'$PORT/"),
    proxied!(
        "proxy-to-loopback-as-a-number",
        "--request-target http://2130706433:$PORT/ http://example.org/"
    ),
    proxied!("proxy-to-the-unspecified-address", "http://0.0.0.0:$PORT/"),
    proxied!("proxy-to-localhost", "http://localhost:$PORT/"),
    proxied!("proxy-to-the-hosts-address", "http://$HOST_IP:$PORT/"),
    proxied!("proxy-to-a-private-address", "http://10.11.12.13/"),
    tunnelled!("tunnel-to-loopback", "http://127.0.0.1:$PORT/"),
    tunnelled!("tunnel-to-metadata", "http://169.254.169.254/"),
    tunnelled!("tunnel-to-the-hosts-address", "http://$HOST_IP:$PORT/"),
    tunnelled!("tunnel-to-localhost", "http://localhost:$PORT/"),
    sh(
        "proxy-by-another-host-header",
        PROXY,
        Without::NamespaceRoot,
        "curl -sS --noproxy '' --max-time 8 -x http://127.0.0.1:3128 -H 'Host: example.org' http://127.0.0.1:$PORT/",
    ),
];
