//! Hosts with private addresses that an administrator of the server opens.

use std::net::IpAddr;

use super::host::Host;
use super::pattern::{BadPattern, Pattern};

/// Names whose addresses, and networks whose hosts, may be private. A project's policy must allow them still.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrivateHosts {
    names: Vec<Pattern>,
    networks: Vec<(IpAddr, u8)>,
}

impl PrivateHosts {
    /// Reads entries: a host pattern (on every port unless it names one), or a network as `10.1.0.0/16`.
    /// The error names the entry.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, (String, BadPattern)> {
        let mut read = Self::default();
        for entry in entries.into_iter().map(str::trim).filter(|entry| !entry.is_empty()) {
            match network(entry) {
                Some(network) => read.networks.push(network),
                None => read.names.push(Pattern::parse(entry).map_err(|why| (entry.to_owned(), why))?),
            }
        }
        Ok(read)
    }

    /// Whether a host at an address may be reached although the address is not public.
    pub fn open(&self, host: &Host, port: u16, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let by_name = |pattern: &Pattern| pattern.port.is_none_or(|own| own == port) && pattern.names(host);
        self.names.iter().any(by_name) || self.networks.iter().any(|network| contains(*network, address))
    }
}

fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}

fn contains((network, length): (IpAddr, u8), address: IpAddr) -> bool {
    let same = |one: u128, other: u128, bits: u32| {
        (one ^ other).checked_shr(bits - u32::from(length)).unwrap_or(0) == 0
    };
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            same(u32::from(network).into(), u32::from(address).into(), 32)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => same(network.into(), address.into(), 128),
        _ => false,
    }
}
