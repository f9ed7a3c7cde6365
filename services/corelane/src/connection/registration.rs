//! The registration of a connection with its lane.

use std::rc::Rc;

use super::Connection;
use super::due::retire_after;
use crate::clock::Tick;
use crate::idle::{ConnectionGuard, History};
use crate::lane::LaneState;
use crate::placement::Place;

/// A connection's place in its lane, released when dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) connection: Rc<Connection>,
    lane: Rc<LaneState>,
    key: usize,
    /// `None` once the connection has left to park or move.
    guard: Option<ConnectionGuard>,
}

impl Registration {
    /// Registers a connection that [`Shared::try_open`](crate::shared::Shared::try_open) allowed.
    pub(crate) fn new(lane: Rc<LaneState>, place: Option<Place>) -> Self {
        let guard = ConnectionGuard::new(&lane.shared, lane.index, place);
        Registration::enter(Connection::accepted(Rc::clone(&lane)), lane, guard)
    }

    /// Registers a connection that was parked or moved.
    pub(crate) fn resume(lane: &Rc<LaneState>, guard: ConnectionGuard, history: History) -> Self {
        let connection = Connection::resumed(Rc::clone(lane), history);
        Registration::enter(connection, Rc::clone(lane), guard)
    }

    fn enter(connection: Connection, lane: Rc<LaneState>, guard: ConnectionGuard) -> Self {
        let connection = Rc::new(connection);
        let key = lane.connections.borrow_mut().insert(Rc::clone(&connection));
        Registration { connection, lane, key, guard: Some(guard) }
    }

    /// Leaves the lane. Returns the state that the connection keeps.
    pub(crate) fn leave(mut self) -> (History, ConnectionGuard) {
        let guard = self.guard.take().expect("it leaves once");
        (self.connection.history(), guard)
    }
}

impl Connection {
    /// A new connection.
    fn accepted(lane: Rc<LaneState>) -> Self {
        let age = lane.timeouts.connection_age;
        let after = |age| lane.clock.get().checked_add(retire_after(age, lane.chance()));
        let retires = age.and_then(after);
        Connection::make(lane, retires, Some(Tick::now()))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.lane.connections.borrow_mut().remove(self.key);
        self.lane.lost_one();
    }
}
