//! Addresses that no policy opens: whatever is not plainly the public Internet.
//!
//! The ranges set aside for documentation stay open: nothing of the host is
//! behind them, and some networks use them for their mirrors.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address belongs to the public Internet.
pub fn is_public(address: IpAddr) -> bool {
    refused_address(address).is_none()
}

/// Why an address is refused, as what it is (`private`, `loopback`, …); `None` when it is public.
pub fn refused_address(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => refused_v4(address),
        IpAddr::V6(address) => refused_v6(address),
    }
}

fn refused_v4(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        [0, ..] => Some("unspecified"),
        [127, ..] => Some("loopback"),
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] => Some("private"),
        // The platform's own service in one cloud; it looks public and is not.
        [168, 63, 129, 16] => Some("a metadata service"),
        [169, 254, ..] => Some("link-local"),
        [100, 64..=127, ..] => Some("shared between networks (carrier-grade NAT)"),
        [198, 18..=19, ..] => Some("for benchmarks"),
        [192, 0, 0, _] | [192, 88, 99, _] => Some("reserved"),
        [224..=239, ..] => Some("multicast"),
        [255, 255, 255, 255] => Some("broadcast"),
        [240..=255, ..] => Some("reserved"),
        _ => None,
    }
}

fn refused_v6(address: Ipv6Addr) -> Option<&'static str> {
    let parts = address.segments();
    if address.is_unspecified() {
        return Some("unspecified");
    }
    if address.is_loopback() {
        return Some("loopback");
    }
    match parts {
        // Mapped (`::ffff:a.b.c.d`) and translated (`64:ff9b::a.b.c.d`) addresses are what they carry.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            refused_v4(joined(high, low))
        }
        // 6to4 carries an address behind its prefix.
        [0x2002, high, low, ..] => refused_v4(joined(high, low)).or_else(|| isatap(parts)),
        // Teredo carries its server's address, and its client's turned over.
        [0x2001, 0, high, low, _, _, client_high, client_low] => {
            refused_v4(joined(high, low)).or_else(|| refused_v4(joined(!client_high, !client_low)))
        }
        [0xfc00..=0xfdff, ..] => Some("private (unique local)"),
        [0xfe80..=0xfebf, ..] => Some("link-local"),
        [0xfec0..=0xfeff, ..] => Some("private (site-local)"),
        [0xff00..=0xffff, ..] => Some("multicast"),
        [0x2001, 1..=0x1ff, ..] => Some("reserved"),
        [0x2000..=0x3fff, ..] => isatap(parts),
        // Among them the old `::a.b.c.d` and local translation prefixes.
        _ => Some("reserved"),
    }
}

/// An interface identifier can carry an address that a router inside a site would deliver to.
fn isatap(parts: [u16; 8]) -> Option<&'static str> {
    match parts {
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => refused_v4(joined(high, low)),
        _ => None,
    }
}

fn joined(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}
