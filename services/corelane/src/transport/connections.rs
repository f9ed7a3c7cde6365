//! A lane's connections, and the registration of each connection.

use std::any::Any;
use std::cell::RefCell;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use slab::Slab;
use tokio::sync::Notify;

use crate::balance::assignment::Assignment;
use crate::balance::lending::{Lending, Loan, Offered};
use crate::balance::moves::Moves;
use crate::base::random::Random;
use crate::base::tally::Tally;
use crate::load::peers::PeerPlace;
use crate::os::socket::Socket;
use crate::request::client::Client;
use crate::request::connection::{Connection, History};
use crate::request::lane_state::LaneState;
use crate::request::polls::Polls;
#[cfg(feature = "chaos")]
use crate::transport::chaos::Choices;
use crate::transport::parking_lot::ParkingLot;
use crate::transport::resting::{ConnectionGuard, Leave, Resting};
use crate::transport::tls::Termination;

/// A lane's open and parked connections, and the state that they need.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) lane: Rc<LaneState>,
    /// Connections with a task. Parked connections are in the parking lot.
    pub(crate) open: RefCell<Slab<Rc<Connection>>>,
    pub(crate) parking_lot: ParkingLot,
    pub(crate) moves: Rc<Moves<Resting>>,
    /// Set if the port uses TLS.
    pub(crate) tls: Option<Arc<Termination>>,
    pub(crate) plain_requests: bool,
    /// Set if lanes lend connections to each other.
    pub(crate) lending: Option<Arc<Lending>>,
    pub(crate) guests: Tally,
    pub(crate) random: Random,
    /// Upgraded streams that were dropped on another thread.
    pub(crate) strays: Arc<Strays>,
    /// Notified when the last connection closes.
    pub(crate) emptied: Notify,
    #[cfg(feature = "chaos")]
    pub(crate) chaos: Option<Choices>,
}

impl Connections {
    pub(crate) fn new(
        lane: Rc<LaneState>,
        moves: Rc<Moves<Resting>>,
        tls: Option<Arc<Termination>>,
        plain_requests: bool,
        lending: Option<Arc<Lending>>,
    ) -> Self {
        Connections {
            lane,
            open: RefCell::default(),
            parking_lot: ParkingLot::default(),
            moves,
            tls,
            plain_requests,
            lending,
            guests: Tally::default(),
            random: Random::new(),
            strays: Strays::new(),
            emptied: Notify::new(),
            #[cfg(feature = "chaos")]
            chaos: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.borrow().is_empty() && self.parking_lot.is_empty()
    }

    pub(crate) fn lost_one(&self) {
        if self.is_empty() {
            self.emptied.notify_one();
        }
    }

    /// Returns where to move a connection that was just polled and is waiting without a request.
    /// Runs after each such poll and reads only one cell if there is nothing to do.
    #[inline]
    pub(crate) fn due(&self, connection: &Connection) -> Option<Leave> {
        if self.lane.polls.is_raised() { self.ask(connection) } else { None }
    }

    #[cold]
    fn ask(&self, connection: &Connection) -> Option<Leave> {
        connection.end_turn();
        if !connection.goes_on() {
            return None;
        }
        if connection.is_guest() {
            // A connection does not read in its first poll.
            let has_begun = connection.has_served_here() || connection.in_header();
            return has_begun.then_some(Leave::Return);
        }
        #[cfg(feature = "chaos")]
        if let Some(chaos) = &self.chaos {
            return chaos.choose(connection);
        }
        if connection.is_to_park() {
            return Some(Leave::Park);
        }
        self.moves.choose(connection).map(|(lane, why)| Leave::Move { lane, why })
    }
}

/// A stream dropped on another thread, which its lane must drop.
type Stray = Box<dyn Any + Send>;

/// Upgraded streams that were dropped on another thread and are waiting here for their lane to
/// close them.
#[derive(Debug)]
pub(crate) struct Strays(Mutex<Option<Vec<Stray>>>);

impl Strays {
    fn new() -> Arc<Self> {
        Arc::new(Strays(Mutex::new(Some(Vec::new()))))
    }

    fn list(&self) -> MutexGuard<'_, Option<Vec<Stray>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the streams. Call this only on the lane's thread.
    pub(crate) fn close_all(&self) {
        let strays = self.list().as_mut().map(mem::take);
        drop(strays);
    }

    /// Closes the streams for the last time. Call this only on the lane's thread.
    pub(crate) fn end(&self) {
        let strays = self.list().take();
        drop(strays);
    }

    pub(crate) fn leave(&self, stray: Stray) {
        match &mut *self.list() {
            Some(strays) => strays.push(stray),
            // The lane has exited, so no thread can close the stream before the process exits.
            None => mem::forget(stray),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) connection: Rc<Connection>,
    pub(crate) connections: Rc<Connections>,
    key: usize,
    tenure: Tenure,
}

#[derive(Debug)]
enum Tenure {
    Own(ConnectionGuard),
    Borrowed(Loan),
    /// The connection has left the lane.
    Left,
}

impl Registration {
    pub(crate) fn new(
        connections: &Rc<Connections>,
        client: Client,
        assignment: Option<Assignment>,
        place: PeerPlace,
    ) -> Self {
        let lane = &connections.lane;
        let guard = ConnectionGuard::new(lane.group(), lane.index, assignment, place);
        let connection = Connection::accepted(Rc::clone(lane), client, connections.random.chance());
        Registration::enter(connection, connections, Tenure::Own(guard))
    }

    pub(crate) fn resume(
        connections: &Rc<Connections>,
        guard: ConnectionGuard,
        history: History,
        peer: Option<SocketAddr>,
        socket: RawFd,
    ) -> Self {
        let connection = Connection::resumed(Rc::clone(&connections.lane), history, peer, socket);
        Registration::enter(connection, connections, Tenure::Own(guard))
    }

    pub(crate) fn borrow(
        connections: &Rc<Connections>,
        mut loan: Loan,
        history: History,
        peer: Option<SocketAddr>,
        socket: RawFd,
    ) -> Self {
        let lane = Rc::clone(&connections.lane);
        lane.polls.raise(Polls::GUESTS);
        connections.guests.add(1);
        let mut connection = Connection::resumed(lane, history, peer, socket);
        connection.set_guest();
        loan.begin();
        Registration::enter(connection, connections, Tenure::Borrowed(loan))
    }

    fn enter(connection: Connection, connections: &Rc<Connections>, tenure: Tenure) -> Self {
        let (connection, connections) = (Rc::new(connection), Rc::clone(connections));
        let key = connections.open.borrow_mut().insert(Rc::clone(&connection));
        Registration { connection, connections, key, tenure }
    }

    /// Leaves the lane. Returns the state that the connection keeps, or `None` if it belongs to
    /// another lane.
    pub(crate) fn leave(mut self) -> Option<(History, ConnectionGuard)> {
        match mem::replace(&mut self.tenure, Tenure::Left) {
            Tenure::Own(guard) => Some((self.connection.history(), guard)),
            Tenure::Borrowed(_) | Tenure::Left => None,
        }
    }

    /// Returns a borrowed connection to its lane, along with any input that was not processed.
    pub(crate) fn give_back(mut self, unread: Bytes) {
        if let Tenure::Borrowed(loan) = mem::replace(&mut self.tenure, Tenure::Left) {
            loan.give_back(&self.connection, unread);
        }
    }

    /// Offers a plain connection's socket to other lanes, if lanes lend connections.
    pub(crate) fn offer(&self, socket: Socket) -> (Socket, Option<Offered>) {
        let Some(lending) = &self.connections.lending else { return (socket, None) };
        if self.connection.is_guest() {
            return (socket, None);
        }
        let (socket, shared) = socket.share();
        let lane = self.connections.lane.index;
        let introduced = self.connection.client.introduced();
        let offer = |shared| Offered::new(lending, lane, self.key, shared, introduced);
        (socket, shared.map(offer))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.connection.is_guest() {
            self.connections.guests.sub(1);
            if self.connections.guests.get() == 0 {
                self.connections.lane.polls.lower(Polls::GUESTS);
            }
        }
        self.connections.open.borrow_mut().remove(self.key);
        self.connections.lost_one();
    }
}
