//! Connects to a host whose every address was judged.

use std::io;
use std::net::{IpAddr, SocketAddr};

use sunaba_engine::egress::{Host, refused_address};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::EgressSettings;
use super::address::is_own;
use super::request::Target;

/// Most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// A connection to the outside.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) stream: TcpStream,
    pub(super) address: IpAddr,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    /// An address must not be reached.
    #[error("address {address} is {what}")]
    Refused { address: IpAddr, what: &'static str },
    #[error("the name does not resolve: {0}")]
    Unresolved(String),
    #[error("resolving the name took too long")]
    ResolveTimeout,
    #[error("connecting failed: {0}")]
    Unreachable(io::Error),
    #[error("connecting took too long")]
    ConnectTimeout,
}

impl Failed {
    pub(super) const fn is_timeout(&self) -> bool {
        matches!(self, Self::ResolveTimeout | Self::ConnectTimeout)
    }
}

/// Resolves once, judges every address, and connects to the first that answers.
pub(super) async fn dial(settings: &EgressSettings, target: &Target) -> Result<Dialled, Failed> {
    let host = target.host.as_ref().map_err(|why| Failed::Unresolved(why.to_string()))?;
    let addresses = addresses(settings, host).await?;
    judge(settings, host, target.port, &addresses)?;
    match timeout(settings.connect_timeout, connect(&addresses, target.port)).await {
        Ok(Ok(dialled)) => Ok(dialled),
        Ok(Err(error)) => Err(Failed::Unreachable(error)),
        Err(_) => Err(Failed::ConnectTimeout),
    }
}

async fn addresses(settings: &EgressSettings, host: &Host) -> Result<Vec<IpAddr>, Failed> {
    let name = match host {
        Host::Address(address) => return Ok(vec![*address]),
        Host::Name(name) => name,
    };
    let found = timeout(settings.resolve_timeout, settings.resolver.resolve(name))
        .await
        .map_err(|_| Failed::ResolveTimeout)?
        .map_err(|error| Failed::Unresolved(error.to_string()))?;
    let mut addresses = Vec::new();
    for address in found {
        let address = address.to_canonical();
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(Failed::Unresolved("it has no address".to_owned()));
    }
    Ok(addresses)
}

/// One bad address spoils the host: a name that is half private is not to be trusted with the other half.
fn judge(settings: &EgressSettings, host: &Host, port: u16, addresses: &[IpAddr]) -> Result<(), Failed> {
    for &address in addresses {
        let what = refused_address(address).or_else(|| is_own(address).then_some("this server's own"));
        if let Some(what) = what
            && !settings.private_hosts.open(host, port, address)
        {
            return Err(Failed::Refused { address, what });
        }
    }
    Ok(())
}

async fn connect(addresses: &[IpAddr], port: u16) -> io::Result<Dialled> {
    let mut last = io::Error::other("no address");
    for &address in addresses.iter().take(ADDRESSES_MAX) {
        match TcpStream::connect(SocketAddr::new(address, port)).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(Dialled { stream, address });
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
