//! Names that conditions may use for numbers.

const NAMES: &[(&str, u64)] = &[
    ("CLONE_NEWTIME", 0x0000_0080),
    ("CLONE_NEWNS", 0x0002_0000),
    ("CLONE_NEWCGROUP", 0x0200_0000),
    ("CLONE_NEWUTS", 0x0400_0000),
    ("CLONE_NEWIPC", 0x0800_0000),
    ("CLONE_NEWUSER", 0x1000_0000),
    ("CLONE_NEWPID", 0x2000_0000),
    ("CLONE_NEWNET", 0x4000_0000),
    ("AF_UNIX", 1),
    ("AF_INET", 2),
    ("AF_INET6", 10),
    ("AF_NETLINK", 16),
    ("SOCK_TYPE_MASK", 0xf),
    ("SOCK_STREAM", 1),
    ("SOCK_DGRAM", 2),
    ("IPPROTO_IP", 0),
    ("IPPROTO_TCP", 6),
    ("IPPROTO_UDP", 17),
    ("NETLINK_ROUTE", 0),
    ("TIOCSTI", 0x5412),
    ("TIOCLINUX", 0x541c),
    ("PER_LINUX", 0),
    ("PER_LINUX32", 0x8),
    ("UNAME26", 0x2_0000),
    ("PER_LINUX32_UNAME26", 0x2_0008),
    ("ADDR_NO_RANDOMIZE", 0x4_0000),
    ("PER_QUERY", 0xffff_ffff),
];

/// A name or a number (decimal, or hexadecimal after `0x`).
pub(super) fn find(word: &str) -> Option<u64> {
    if let Some((_, value)) = NAMES.iter().find(|(name, _)| *name == word) {
        return Some(*value);
    }
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}
