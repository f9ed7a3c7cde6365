//! Decides which clients stay connected to the admin port. Each address has only a few places, so
//! that one client cannot lock out probes from other clients. A new connection replaces an idle
//! connection.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;

use slab::Slab;
use tokio::sync::Notify;

use crate::load::peers::client_of;

const CONNECTIONS: usize = 256;

const OF_ADDRESS: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Door {
    inside: RefCell<Slab<Rc<AdminClient>>>,
    moment: Cell<u64>,
}

#[derive(Debug)]
struct AdminClient {
    address: IpAddr,
    /// The time when the connection was opened or last had a request.
    active: Cell<u64>,
    is_busy: Cell<bool>,
    /// Notified when the connection must close.
    leave: Notify,
}

/// A connection's place at the admin port, released when dropped.
#[derive(Debug)]
pub(super) struct DoorPlace {
    door: Rc<Door>,
    client: Rc<AdminClient>,
    /// Invalid once another connection has taken the place.
    key: usize,
}

impl Door {
    fn next(&self) -> u64 {
        self.moment.set(self.moment.get() + 1);
        self.moment.get()
    }

    /// Takes a place for a connection from `address`. `None` if every connection that could be
    /// replaced has a request in flight.
    pub(super) fn enter(self: &Rc<Self>, address: IpAddr) -> Option<DoorPlace> {
        let address = client_of(address);
        let crowd = match self.of(address) {
            OF_ADDRESS.. => Some(address),
            _ if self.inside.borrow().len() >= CONNECTIONS => self.largest(),
            _ => None,
        };
        if let Some(crowd) = crowd {
            let idle = self.longest_idle(crowd)?;
            let idle = self.inside.borrow_mut().remove(idle);
            idle.leave.notify_one();
        }
        let (active, is_busy) = (Cell::new(self.next()), Cell::new(false));
        let client = Rc::new(AdminClient { address, active, is_busy, leave: Notify::new() });
        let key = self.inside.borrow_mut().insert(Rc::clone(&client));
        Some(DoorPlace { door: Rc::clone(self), client, key })
    }

    fn of(&self, address: IpAddr) -> usize {
        self.inside.borrow().iter().filter(|(_, client)| client.address == address).count()
    }

    fn largest(&self) -> Option<IpAddr> {
        let inside = self.inside.borrow();
        let addresses = inside.iter().map(|(_, client)| client.address);
        addresses.max_by_key(|&address| self.of(address))
    }

    /// The connection from this address that has been idle the longest.
    fn longest_idle(&self, address: IpAddr) -> Option<usize> {
        let inside = self.inside.borrow();
        let idle = inside.iter().filter(|(_, c)| c.address == address && !c.is_busy.get());
        idle.min_by_key(|(_, client)| client.active.get()).map(|(key, _)| key)
    }
}

impl DoorPlace {
    /// Waits until another connection takes the place.
    pub(super) async fn taken(&self) {
        self.client.leave.notified().await;
    }

    pub(super) fn set_busy(&self, is_busy: bool) {
        self.client.is_busy.set(is_busy);
        self.client.active.set(self.door.next());
    }
}

impl Drop for DoorPlace {
    fn drop(&mut self) {
        let mut inside = self.door.inside.borrow_mut();
        // The key may already belong to the place's new owner.
        if inside.get(self.key).is_some_and(|client| Rc::ptr_eq(client, &self.client)) {
            inside.remove(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: usize) -> IpAddr {
        [10, 0, 0, u8::try_from(n).expect("a small number")].into()
    }

    fn is_inside(place: &DoorPlace) -> bool {
        let inside = place.door.inside.borrow();
        inside.iter().any(|(_, client)| Rc::ptr_eq(client, &place.client))
    }

    #[test]
    fn an_address_replaces_its_own_connection_that_waits_longest() {
        let door = Rc::new(Door::default());
        let other = door.enter(address(2)).expect("room");
        let places: Vec<_> = (0..OF_ADDRESS).filter_map(|_| door.enter(address(1))).collect();
        places[0].set_busy(true);
        places[1].set_busy(true);
        places[1].set_busy(false);
        let newcomer = door.enter(address(1)).expect("the place of another");
        assert!(is_inside(&newcomer) && is_inside(&other));
        let gone: Vec<_> = (0..OF_ADDRESS).filter(|&n| !is_inside(&places[n])).collect();
        assert_eq!(gone, [2]);
        drop(places);
        assert!(is_inside(&newcomer), "who has left does not take the place along");
    }

    #[test]
    fn where_all_have_requests_there_is_no_place() {
        let door = Rc::new(Door::default());
        let places: Vec<_> = (0..OF_ADDRESS).filter_map(|_| door.enter(address(1))).collect();
        places.iter().for_each(|place| place.set_busy(true));
        assert!(door.enter(address(1)).is_none());
        assert!(door.enter(address(2)).is_some());
    }

    #[test]
    fn a_newcomer_takes_a_place_of_the_address_with_the_most() {
        let door = Rc::new(Door::default());
        let some = |n, address| (0..n).filter_map(|_| door.enter(address)).collect::<Vec<_>>();
        let many = some(OF_ADDRESS, address(0));
        let fewer: Vec<_> = (1..=8).map(|n| some(28, address(n))).collect();
        assert_eq!(door.inside.borrow().len(), CONNECTIONS);
        let newcomer = door.enter(address(20)).expect("a place of another");
        assert!(is_inside(&newcomer));
        assert_eq!(many.iter().filter(|place| !is_inside(place)).count(), 1);
        assert!(fewer.iter().flatten().all(is_inside));
    }
}
