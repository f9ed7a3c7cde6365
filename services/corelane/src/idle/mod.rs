//! Idle connections: parking them, and moving them to other lanes.
//!
//! ```text
//!           accept, or arrival from another lane
//!                      │
//!    ┌────────────► Plain (waits, answers plain requests) ──not plain──► hyper, to the end
//!    │                 │ between two requests, or within a head:
//!    │                 ▼ park_after | a move
//!    │  wake:       Resting
//!    │  bytes,         │
//!    │  deadline,      ├─► the lane's parking lot (parked)
//!    └──drain──────────┘
//!                      └─► transit to another lane (moved) ──► that lane's Plain
//! ```
//!
//! | part | does |
//! |---|---|
//! | [`resting`] | a connection without a lane's state |
//! | [`parking_lot`], [`table`] | where a lane's parked connections wait |
//! | [`parking`] | wakes them, and ends those that are overdue |
//! | [`wake`] | which lane serves a connection that wakes |
//! | [`transit`] | connections in transit between lanes |
//! | [`mover`], [`policy`] | when connections in use change lanes, and how many |
//! | [`shedding`] | which of its connections a lane lets go |

#[cfg(feature = "chaos")]
mod chaos;
pub(crate) mod mover;
mod parking;
mod parking_lot;
mod policy;
mod resting;
mod shedding;
mod table;
pub(crate) mod transit;
mod wake;

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;

#[cfg(feature = "chaos")]
pub(crate) use chaos::LaneChaos;
#[cfg(feature = "chaos")]
pub use chaos::{Chaos, Rule};
pub(crate) use parking::run;
pub(crate) use parking_lot::ParkingLot;
pub(crate) use resting::{ConnectionGuard, History, Resting};
pub(crate) use shedding::{Shedding, Taken};
pub(crate) use transit::Mailbox;
pub(crate) use wake::RecentLoad;

use crate::connection::{Connection, Order, Registration};
use crate::http_connection::{LaneService, go_on};
use crate::metrics::Moved;
use crate::service::HttpService;
use crate::socket::Socket;

/// The reasons to check a lane's connections for idleness, one bit each.
#[derive(Debug, Default)]
pub(crate) struct Attention(Cell<u8>);

impl Attention {
    /// Connections have an order to park.
    pub(crate) const PARK: u8 = 1;
    /// The lane takes part in a plan.
    pub(crate) const SHED: u8 = 2;
    /// Chaos is enabled.
    #[cfg(feature = "chaos")]
    pub(crate) const CHAOS: u8 = 128;

    pub(crate) fn raise(&self, reason: u8) {
        self.0.set(self.0.get() | reason);
    }

    pub(crate) fn lower(&self, reason: u8) {
        self.0.set(self.0.get() & !reason);
    }

    fn is_raised(&self) -> bool {
        self.0.get() != 0
    }

    fn is(&self, reason: u8) -> bool {
        self.0.get() & reason != 0
    }
}

/// Where a connection goes that has no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// To the parking lot.
    Park,
    /// To another lane.
    Move { lane: usize, why: Moved },
}

/// Starts timing a poll of a connection, if the lane measures its connections.
#[inline]
pub(crate) fn begin_poll(connection: &Connection) {
    let lane = connection.lane();
    if lane.attention.is(Attention::SHED) {
        lane.shedding.begin_poll(connection);
    }
}

/// Ends the poll of a connection that is not idle.
#[inline]
pub(crate) fn end_poll(connection: &Connection) {
    let lane = connection.lane();
    if lane.attention.is(Attention::SHED) {
        lane.shedding.end_poll(connection);
    }
}

/// Where a connection is to go that was just polled, has to wait and has no request. Asked after
/// each such poll: nothing but one cell is read while nothing is to be done.
#[inline]
pub(crate) fn due(connection: &Connection) -> Option<Leave> {
    if connection.lane().attention.is_raised() { ask(connection) } else { None }
}

#[cold]
fn ask(connection: &Connection) -> Option<Leave> {
    let lane = connection.lane();
    let sheds = lane.attention.is(Attention::SHED);
    if sheds {
        lane.shedding.end_poll(connection);
    }
    #[cfg(feature = "chaos")]
    if let Some(chaos) = &lane.chaos {
        return chaos.ask(connection);
    }
    if !connection.goes_on() {
        return None;
    }
    if connection.is_to_park() {
        return Some(Leave::Park);
    }
    if sheds { lane.shedding.choose(lane, connection) } else { None }
}

/// Takes an idle connection from its task. `unread` was read from the socket and starts with a
/// message.
pub(crate) fn leave<S: HttpService>(
    host: &Rc<LaneService<S>>,
    registration: Registration,
    mut socket: Socket,
    unread: Bytes,
    to: Leave,
) {
    #[cfg(feature = "chaos")]
    let unread = host.lane.unread(unread);
    if !socket.is_quiet() {
        registration.connection.stay();
        return go_on(host, registration, socket, unread);
    }
    let resting = match Resting::new(registration, socket, unread) {
        Ok(resting) => resting,
        Err(error) => {
            tracing::warn!(lane = host.lane.index, %error, "cannot move a connection to another lane");
            return;
        }
    };
    match to {
        Leave::Park => {
            if let Some(resting) = host.lane.parking_lot.park(&host.lane, resting) {
                resting.resume(host, None);
            }
        }
        Leave::Move { lane, why } => transit::depart(host, resting, lane, why),
    }
}

/// Resumes a connection that was parked: here if there is an `order`, otherwise on the lane that
/// has time for it.
fn wake<S: HttpService>(host: &Rc<LaneService<S>>, resting: Resting, order: Option<Order>) {
    let elsewhere = if order.is_none() { wake::place(&host.lane) } else { None };
    match elsewhere {
        Some(lane) => transit::depart(host, resting, lane, Moved::Wake),
        None => resting.resume(host, order),
    }
}

#[cfg(test)]
mod tests;
