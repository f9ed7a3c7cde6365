//! The connections of a lane, and the registration of each.

use std::any::Any;
use std::cell::RefCell;
use std::fmt::Debug;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slab::Slab;
use tokio::sync::Notify;

use crate::base::random::Random;
use crate::load::assignment::Assignment;
use crate::load::peers::PeerPlace;
use crate::metrics::Moved;
use crate::request::client::Client;
use crate::request::connection::{Connection, History};
use crate::request::lane_state::LaneState;
#[cfg(feature = "chaos")]
use crate::transport::chaos::LaneChaos;
use crate::transport::parking_lot::ParkingLot;
use crate::transport::resting::{ConnectionGuard, Leave, Resting};
use crate::transport::tls::Termination;

/// Decides which connections move to other lanes, and sends them there.
pub(crate) trait Moves: Debug {
    /// Where an idle connection should go that was just polled.
    fn choose(&self, connection: &Connection) -> Option<Leave>;

    /// The lane that should resume a connection which wakes; `None` for this one.
    fn choose_lane(&self) -> Option<usize>;

    /// Sends a connection to another lane, or returns it if it has to stay.
    fn depart(&self, resting: Resting, to: usize, why: Moved) -> Result<(), Resting>;
}

/// The connections of a lane, open and parked, and what they need.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) lane: Rc<LaneState>,
    /// Connections with a task. Parked connections are in the parking lot.
    pub(crate) open: RefCell<Slab<Rc<Connection>>>,
    pub(crate) parking_lot: ParkingLot,
    pub(crate) moves: Rc<dyn Moves>,
    /// Set if the port uses TLS.
    pub(crate) tls: Option<Arc<Termination>>,
    /// Whether the fast path is enabled.
    pub(crate) fast_path: bool,
    pub(crate) random: Random,
    /// Streams of upgraded connections that were dropped on another thread.
    pub(crate) strays: Arc<Strays>,
    /// Notified when the last connection closes.
    pub(crate) emptied: Notify,
    #[cfg(feature = "chaos")]
    pub(crate) chaos: Option<LaneChaos>,
}

impl Connections {
    pub(crate) fn new(
        lane: Rc<LaneState>,
        moves: Rc<dyn Moves>,
        tls: Option<Arc<Termination>>,
        fast_path: bool,
    ) -> Self {
        Connections {
            lane,
            open: RefCell::default(),
            parking_lot: ParkingLot::default(),
            moves,
            tls,
            fast_path,
            random: Random::new(),
            strays: Strays::new(),
            emptied: Notify::new(),
            #[cfg(feature = "chaos")]
            chaos: None,
        }
    }

    /// Whether this lane has no open connections.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.borrow().is_empty() && self.parking_lot.is_empty()
    }

    /// Notifies `emptied` if no connection is left.
    pub(crate) fn lost_one(&self) {
        if self.is_empty() {
            self.emptied.notify_one();
        }
    }

    /// Where a connection is to go that was just polled, has to wait and has no request. Asked after
    /// each such poll: nothing but one cell is read while nothing is to be done.
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
        #[cfg(feature = "chaos")]
        if let Some(chaos) = &self.chaos {
            return chaos.choose(connection);
        }
        if connection.is_to_park() {
            return Some(Leave::Park);
        }
        self.moves.choose(connection)
    }
}

/// What the lane has to drop, because it was dropped on another thread.
type Stray = Box<dyn Any + Send>;

/// Streams of upgraded connections that were dropped on another thread, until their lane closes them.
#[derive(Debug)]
pub(crate) struct Strays(Mutex<Option<Vec<Stray>>>);

impl Strays {
    fn new() -> Arc<Self> {
        Arc::new(Strays(Mutex::new(Some(Vec::new()))))
    }

    fn list(&self) -> MutexGuard<'_, Option<Vec<Stray>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the streams. Only the thread of the lane may call this.
    pub(crate) fn close_all(&self) {
        let strays = self.list().as_mut().map(mem::take);
        drop(strays);
    }

    /// Closes the streams for the last time. Only the thread of the lane may call this.
    pub(crate) fn end(&self) {
        let strays = self.list().take();
        drop(strays);
    }

    /// Leaves a stream to the thread of the lane.
    pub(crate) fn leave(&self, stray: Stray) {
        match &mut *self.list() {
            Some(strays) => strays.push(stray),
            // The lane has ended, so no thread can close it. The end of the process does.
            None => mem::forget(stray),
        }
    }
}

/// An open connection among those of its lane, removed when dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) connection: Rc<Connection>,
    pub(crate) connections: Rc<Connections>,
    key: usize,
    /// `None` once the connection has left to park or move.
    guard: Option<ConnectionGuard>,
}

impl Registration {
    /// Registers a connection that [`LaneGroup::admit`](crate::load::lane::LaneGroup::admit)
    /// allowed.
    pub(crate) fn new(
        connections: &Rc<Connections>,
        client: Client,
        assignment: Option<Assignment>,
        place: PeerPlace,
    ) -> Self {
        let lane = &connections.lane;
        let guard = ConnectionGuard::new(lane.group(), lane.index, assignment, place);
        let connection = Connection::accepted(Rc::clone(lane), client, connections.random.chance());
        Registration::enter(connection, connections, guard)
    }

    /// Registers a connection that was parked or moved.
    pub(crate) fn resume(
        connections: &Rc<Connections>,
        guard: ConnectionGuard,
        history: History,
        peer: Option<SocketAddr>,
        socket: RawFd,
    ) -> Self {
        let connection = Connection::resumed(Rc::clone(&connections.lane), history, peer, socket);
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
