//! Names to addresses, and which of those belong to this machine.

use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Semaphore;

/// Lookups at once. One that hangs holds its place until the system gives it up, whoever waited for it.
const LOOKUPS_MAX: usize = 64;

/// Turns names into addresses.
#[async_trait]
pub trait Resolve: std::fmt::Debug + Send + Sync {
    /// Every address of a name.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's resolver.
#[derive(Debug)]
pub struct SystemResolver {
    places: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)?;
        let name = name.to_owned();
        let lookup = tokio::task::spawn_blocking(move || {
            let found = (name.as_str(), 0).to_socket_addrs().map(|found| found.map(|at| at.ip()).collect());
            drop(place);
            found
        });
        lookup.await.map_err(io::Error::other)?
    }
}

/// Whether an address is one of this machine's own; when that cannot be found out, it counts as one.
pub(super) fn is_own(address: IpAddr) -> bool {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return true };
    let own = |storage: nix::sys::socket::SockaddrStorage| {
        let v4 = storage.as_sockaddr_in().map(|at| IpAddr::V4(at.ip()));
        v4.or_else(|| storage.as_sockaddr_in6().map(|at| IpAddr::V6(at.ip())))
    };
    interfaces.filter_map(|interface| interface.address).filter_map(own).any(|known| known == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machines_addresses_are_known() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("203.0.113.254".parse().unwrap()) && !is_own("2001:db8::fe".parse().unwrap()));
    }

    #[tokio::test]
    async fn the_system_resolves_its_own_name_and_no_other() {
        let resolver = SystemResolver::default();
        assert!(resolver.resolve("localhost").await.unwrap().iter().all(IpAddr::is_loopback));
        assert!(resolver.resolve("no-such-name.invalid").await.is_err());
    }
}
