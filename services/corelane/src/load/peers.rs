//! Counts open connections per address, if they are limited.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The lock is taken once when a connection opens and once when it closes.
#[derive(Debug)]
pub(crate) struct Peers {
    limit: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A place among the open connections from one address, counted until it is dropped. Empty without
/// a limit.
#[derive(Debug, Default)]
pub(crate) struct PeerPlace(Option<Box<(Arc<Peers>, IpAddr)>>);

/// The address that connections are counted under: for IPv6, its /64 prefix, because one client can
/// use any address in it.
pub(crate) fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 => v4,
    }
}

impl Peers {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Peers { limit, open: Mutex::default() })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<PeerPlace> {
        let address = client_of(address);
        let mut open = self.open();
        let connections = open.entry(address).or_default();
        if *connections >= self.limit {
            return None;
        }
        *connections += 1;
        drop(open);
        Some(PeerPlace(Some(Box::new((Arc::clone(self), address)))))
    }
}

impl Drop for PeerPlace {
    fn drop(&mut self) {
        let Some((peers, address)) = self.0.take().map(|place| *place) else { return };
        if let Entry::Occupied(mut connections) = peers.open().entry(address) {
            *connections.get_mut() -= 1;
            if *connections.get() == 0 {
                connections.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_has_its_own_places_and_returns_them() {
        let peers = Peers::new(2);
        let enter = |text| peers.enter(address(text));
        let places = [enter("192.0.2.1"), enter("192.0.2.1")];
        assert!(places.iter().all(Option::is_some));
        assert!(enter("192.0.2.1").is_none());
        assert!(
            enter("::ffff:192.0.2.1").is_none(),
            "the same client on a socket for both families"
        );
        assert!(enter("192.0.2.2").is_some());
        drop(places);
        assert!(peers.open().is_empty(), "nothing is kept of clients that left");
    }

    #[test]
    fn a_64_of_ipv6_is_one_client() {
        let peers = Peers::new(1);
        let place = peers.enter(address("2001:db8::1"));
        assert!(place.is_some());
        assert!(peers.enter(address("2001:db8::ffff:1")).is_none());
        assert!(peers.enter(address("2001:db8:0:1::1")).is_some());
    }
}
