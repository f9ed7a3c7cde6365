//! The registration of a connection with its lane.

use std::rc::Rc;

use crate::load::assignment::Assignment;
use crate::request::connection::{Connection, History};
use crate::transport::connections::Connections;
use crate::transport::resting::ConnectionGuard;

/// An open connection among those of its lane, removed when dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) connection: Rc<Connection>,
    connections: Rc<Connections>,
    key: usize,
    /// `None` once the connection has left to park or move.
    guard: Option<ConnectionGuard>,
}

impl Registration {
    /// Registers a connection that [`LaneGroup::try_open`](crate::load::lane::LaneGroup::try_open)
    /// allowed.
    pub(crate) fn new(connections: &Rc<Connections>, assignment: Option<Assignment>) -> Self {
        let lane = &connections.lane;
        let guard = ConnectionGuard::new(lane.group(), lane.index, assignment);
        let connection = Connection::accepted(Rc::clone(lane), connections.random.chance());
        Registration::enter(connection, connections, guard)
    }

    /// Registers a connection that was parked or moved.
    pub(crate) fn resume(
        connections: &Rc<Connections>,
        guard: ConnectionGuard,
        history: History,
    ) -> Self {
        let connection = Connection::resumed(Rc::clone(&connections.lane), history);
        Registration::enter(connection, connections, guard)
    }

    fn enter(
        connection: Connection,
        connections: &Rc<Connections>,
        guard: ConnectionGuard,
    ) -> Self {
        let (connection, connections) = (Rc::new(connection), Rc::clone(connections));
        let key = connections.open.borrow_mut().insert(Rc::clone(&connection));
        Registration { connection, connections, key, guard: Some(guard) }
    }

    /// Leaves the lane. Returns the state that the connection keeps.
    pub(crate) fn leave(mut self) -> (History, ConnectionGuard) {
        let guard = self.guard.take().expect("it leaves once");
        (self.connection.history(), guard)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.connections.open.borrow_mut().remove(self.key);
        self.connections.lost_one();
    }
}
