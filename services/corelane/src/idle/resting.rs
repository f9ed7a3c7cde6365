//! A connection without a lane's state.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::connection::{Order, Registration};
use crate::http_connection::{LaneService, go_on};
use crate::placement::Place;
use crate::service::HttpService;
use crate::shared::Shared;
use crate::socket::{Socket, StillSocket};

/// An HTTP/1.1 connection between two requests, which any lane can resume.
#[derive(Debug)]
pub(crate) struct Resting {
    pub(crate) socket: StillSocket,
    pub(crate) unread: Unread,
    pub(crate) history: History,
    pub(crate) guard: ConnectionGuard,
}

/// Input that was read and not processed: part of a head, or pipelined requests. Usually empty,
/// which takes one word.
#[derive(Debug)]
pub(crate) struct Unread(Option<Box<Bytes>>);

impl Unread {
    pub(super) fn new(bytes: Bytes) -> Self {
        Unread((!bytes.is_empty()).then(|| Box::new(bytes)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn into_bytes(self) -> Bytes {
        self.0.map_or_else(Bytes::new, |bytes| *bytes)
    }
}

/// The state that a connection keeps across lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct History {
    /// How long it has waited for its client. `None`: the next sweep starts to count.
    pub(crate) waited: Option<Duration>,
    /// Whether it waits for the rest of a head rather than for a request.
    pub(crate) in_header: bool,
    /// Time until it reaches its maximum age.
    pub(crate) retires_in: Option<Duration>,
    /// Requests served on it.
    pub(crate) requests: u64,
    /// A request announced a body.
    pub(crate) had_body: bool,
    /// The next reply closes the connection.
    pub(crate) last: bool,
    /// Generation of the last load report sent on it.
    pub(crate) reported: u32,
}

impl Resting {
    /// Detaches a connection from its lane.
    pub(crate) fn new(
        registration: Registration,
        socket: Socket,
        unread: Bytes,
    ) -> io::Result<Resting> {
        let (mut history, guard) = registration.leave();
        // The part of a head may have arrived together with the previous request.
        history.in_header |= !unread.is_empty();
        Ok(Resting { socket: socket.rest()?, unread: Unread::new(unread), history, guard })
    }

    /// Resumes it on the calling lane, with `order` first if there is one.
    pub(crate) fn resume<S: HttpService>(self, host: &Rc<LaneService<S>>, order: Option<Order>) {
        let Resting { socket, unread, history, guard } = self;
        let socket = match socket.wake() {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(lane = host.lane.index, %error, "cannot poll a connection");
                drop(guard);
                return host.lane.lost_one();
            }
        };
        let registration = Registration::resume(&host.lane, guard, history);
        if let Some(order) = order {
            registration.connection.tell(order);
        }
        go_on(host, registration, socket, unread.into_bytes());
    }
}

/// A place among the open connections of the server, released when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    shared: Arc<Shared>,
    /// The lane on which it is open; `None` in transit.
    lane: Option<u32>,
    /// The place in the lane's count, if there is an acceptor.
    place: Option<Place>,
}

impl ConnectionGuard {
    /// A place that [`Shared::try_open`] reserved.
    pub(crate) fn new(shared: &Arc<Shared>, lane: usize, place: Option<Place>) -> Self {
        let mut guard = ConnectionGuard { shared: Arc::clone(shared), lane: None, place };
        guard.arrive(lane);
        guard
    }

    /// Leaves its lane for another. Only the old lane's thread may call this.
    pub(super) fn depart(&mut self, to: usize) {
        self.leave();
        if let Some(place) = &mut self.place {
            place.follow(to);
        }
    }

    /// Arrives at a lane. Only the new lane's thread may call this.
    pub(super) fn arrive(&mut self, lane: usize) {
        self.lane = Some(lane as u32);
        self.shared.lanes[lane].metrics.open.add(1);
    }

    fn leave(&mut self) {
        if let Some(lane) = self.lane.take() {
            self.shared.lanes[lane as usize].metrics.open.sub(1);
        }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.leave();
        self.shared.close();
    }
}
