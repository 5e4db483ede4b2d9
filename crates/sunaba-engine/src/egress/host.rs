//! A host as a request or a pattern names it, in one spelling.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Longest name there is.
const NAME_MAX: usize = 253;
/// Longest part of a name between two dots.
const LABEL_MAX: usize = 63;

/// A name in lower case without a final dot, or an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name.
    Name(String),
    /// An address; one that is IPv4 in IPv6's clothes is IPv4.
    Address(IpAddr),
}

/// Why a text names no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadHost {
    /// There is nothing.
    #[error("the host is missing")]
    Empty,
    /// Longer than a name can be.
    #[error("a host name has at most 253 characters, and 63 between two dots")]
    TooLong,
    /// A character that no name has.
    #[error("a host name has letters, digits, hyphens and dots only; write other letters as xn--...")]
    Character,
    /// Two dots in a row, or one at the start.
    #[error("a part of the host name is empty")]
    EmptyLabel,
    /// An address that is not in its usual form.
    #[error("an address is written in full: four decimal numbers, or IPv6")]
    OddAddress,
}

impl Host {
    /// Reads a host without port. IPv6 may stand in brackets.
    pub fn parse(text: &str) -> Result<Self, BadHost> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(BadHost::OddAddress)?;
            return v6(inner);
        }
        if text.contains(':') {
            return v6(text);
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        check_name(name)?;
        if let Ok(address) = name.parse::<IpAddr>() {
            return Ok(Self::Address(address));
        }
        // What ends in a number is an address in an odd spelling (127.1, 0x7f000001), which resolvers
        // understand: there is no such top-level domain.
        if name.rsplit('.').next().is_some_and(is_number) {
            return Err(BadHost::OddAddress);
        }
        Ok(Self::Name(name.to_ascii_lowercase()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

fn v6(text: &str) -> Result<Host, BadHost> {
    let address: Ipv6Addr = text.parse().map_err(|_| BadHost::OddAddress)?;
    Ok(Host::Address(IpAddr::V6(address).to_canonical()))
}

fn check_name(name: &str) -> Result<(), BadHost> {
    if name.is_empty() {
        return Err(BadHost::Empty);
    }
    if name.len() > NAME_MAX || name.split('.').any(|label| label.len() > LABEL_MAX) {
        return Err(BadHost::TooLong);
    }
    if name.split('.').any(str::is_empty) {
        return Err(BadHost::EmptyLabel);
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.bytes().all(fits) { Ok(()) } else { Err(BadHost::Character) }
}

fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    match hex {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}
