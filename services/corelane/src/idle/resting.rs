//! A connection without a lane's state.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::connection::{Order, Registration};
use crate::http_connection::{LaneService, go_on};
use crate::placement::Place;
use crate::reply::HttpService;
use crate::shared::Shared;
use crate::socket::{Socket, StillSocket};

/// A connection of HTTP/1.1 between two requests, which any lane may go on with.
#[derive(Debug)]
pub(crate) struct Resting {
    pub(crate) socket: StillSocket,
    pub(crate) unread: Unread,
    pub(crate) history: History,
    pub(crate) seat: Seat,
}

/// What was read and not looked at: a part of a head, or pipelined requests. Most often nothing,
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

/// What a connection takes with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct History {
    /// How long it has waited for its client. `None`: the next sweep begins to count.
    pub(crate) waited: Option<Duration>,
    /// Whether it waits for the rest of a head, and not for a request.
    pub(crate) in_header: bool,
    /// When it is old enough to go.
    pub(crate) retires_in: Option<Duration>,
    /// Requests that it has carried.
    pub(crate) requests: u64,
    /// A request announced a body.
    pub(crate) had_body: bool,
    /// Its next reply is its last.
    pub(crate) last: bool,
    /// Generation of the last load report that it was sent.
    pub(crate) reported: u32,
}

impl Resting {
    /// Takes a connection off its lane.
    pub(crate) fn new(
        registration: Registration,
        socket: Socket,
        unread: Bytes,
    ) -> io::Result<Resting> {
        let (mut history, seat) = registration.leave();
        // It may have come together with the request before.
        history.in_header |= !unread.is_empty();
        Ok(Resting { socket: socket.rest()?, unread: Unread::new(unread), history, seat })
    }

    /// Goes on with it on the lane that this is called on, with `order` first if there is one.
    pub(crate) fn resume<S: HttpService>(self, host: &Rc<LaneService<S>>, order: Option<Order>) {
        let Resting { socket, unread, history, seat } = self;
        let socket = match socket.wake() {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(lane = host.lane.index, %error, "cannot poll a connection");
                drop(seat);
                return host.lane.lost_one();
            }
        };
        let registration = Registration::resume(&host.lane, seat, history);
        if let Some(order) = order {
            registration.connection.tell(order);
        }
        go_on(host, registration, socket, unread.into_bytes());
    }
}

/// A place among the open connections of the server, given up when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    shared: Arc<Shared>,
    /// Where it is open; `None` on its way between two lanes.
    lane: Option<u32>,
    /// In the count of its lane, where an acceptor counts.
    place: Option<Place>,
}

impl Seat {
    /// One that [`Shared::try_open`] allowed.
    pub(crate) fn new(shared: &Arc<Shared>, lane: usize, place: Option<Place>) -> Self {
        let mut seat = Seat { shared: Arc::clone(shared), lane: None, place };
        seat.arrive(lane);
        seat
    }

    /// Leaves its lane for another. Only the thread of the one may call this.
    pub(super) fn depart(&mut self, to: usize) {
        self.leave();
        if let Some(place) = &mut self.place {
            place.follow(to);
        }
    }

    /// Has come to a lane. Only the thread of that may call this.
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

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
        self.shared.close();
    }
}
