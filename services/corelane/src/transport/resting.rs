//! A connection at rest, for which no lane holds any state.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::balance::assignment::Assignment;
use crate::balance::moves::Movable;
use crate::load::lane::LaneGroup;
use crate::load::peers::PeerPlace;
use crate::metrics::Moved;
use crate::os::socket::{Socket, StillSocket};
use crate::request::connection::History;

/// An HTTP/1.1 connection between requests, which any lane can resume.
#[derive(Debug)]
pub(crate) struct Resting {
    pub(crate) socket: StillSocket,
    pub(crate) unread: Unread,
    pub(crate) history: History,
    pub(crate) guard: ConnectionGuard,
}

/// Input that was read but not processed: part of a head, or pipelined requests. The input is
/// usually empty, in which case it takes one word.
#[derive(Debug)]
pub(crate) struct Unread(Option<Box<Bytes>>);

impl Unread {
    pub(crate) fn new(bytes: Bytes) -> Self {
        Unread((!bytes.is_empty()).then(|| Box::new(bytes)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        self.0.map_or_else(Bytes::new, |bytes| *bytes)
    }
}

/// The places where a connection without a request can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    Park,
    /// To another lane.
    Move {
        lane: usize,
        why: Moved,
    },
    Return,
}

impl Resting {
    pub(crate) fn new(
        mut history: History,
        guard: ConnectionGuard,
        socket: Socket,
        unread: Bytes,
    ) -> io::Result<Resting> {
        // The partial head may have arrived together with the previous request.
        history.in_header = !unread.is_empty();
        Ok(Resting { socket: socket.rest()?, unread: Unread::new(unread), history, guard })
    }
}

impl Movable for Resting {
    fn depart(&mut self, to: usize) {
        self.guard.depart(to);
    }

    fn arrive(&mut self, lane: usize) {
        self.guard.arrive(lane);
    }
}

/// Counts one of the server's open connections until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    lanes: Arc<LaneGroup>,
    /// The lane on which the connection is open, or `None` while it is in transit.
    lane: Option<u32>,
    /// The connection's assignment to the lane, if there is an acceptor.
    assignment: Option<Assignment>,
    place: PeerPlace,
}

impl ConnectionGuard {
    pub(crate) fn new(
        lanes: &Arc<LaneGroup>,
        lane: usize,
        assignment: Option<Assignment>,
        place: PeerPlace,
    ) -> Self {
        let lanes = Arc::clone(lanes);
        let mut guard = ConnectionGuard { lanes, lane: None, assignment, place };
        guard.arrive(lane);
        guard
    }

    fn depart(&mut self, to: usize) {
        self.leave();
        if let Some(assignment) = &mut self.assignment {
            assignment.follow(to);
        }
    }

    fn arrive(&mut self, lane: usize) {
        self.lane = Some(lane as u32);
        self.lanes[lane].metrics.open.add(1);
    }

    fn leave(&mut self) {
        if let Some(lane) = self.lane.take() {
            self.lanes[lane as usize].metrics.open.sub(1);
        }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        // The place is released before the connection counts as closed.
        self.assignment = None;
        self.place = PeerPlace::default();
        self.lanes.close();
        self.leave();
    }
}
