//! A connection's state: five state machines, and the rules for combining their states.
//!
//! ```text
//! server    Opening ──► PlainPath ──► Hyper            Opening ──► Http2
//! reading   Handshake ──► Idle ──► Head ──► Serving ──► Idle … ──► Leaving ──► Abandoned
//!                           └─► Lent ──► Idle          Idle ──► Upgraded
//!                                       Serving ──► Body ──► Idle or Head
//! client    Open ◄──► SaidLast ──► Ended ──► Gone
//! writing   Idle ──► Asked ──► Reply ──► Idle          Idle ──► Unasked ──► Idle      … ──► Reset
//! orders    None ──► Park ──► None                     None ──► Given ──► Obeyed
//! ```
//!
//! The [`Countdown`](super::due::Countdown) of the connection's deadline shows how long it has been
//! in a state. Only sweeps set it.

use super::Connection;
use crate::request::finished::Cut;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedBy {
    /// The protocol is unknown, or the connection was just resumed.
    Opening,
    PlainPath,
    /// hyper over HTTP/1.1, until the connection ends.
    Hyper,
    /// hyper over HTTP/2. Received bytes do not imply that the head of a request has begun.
    Http2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Idle,
    Handshake,
    /// The first byte of an HTTP/1.1 request arrived, but not the complete head.
    Head,
    Serving,
    /// All requests have responses, but the service is still reading the last body, or the rest of
    /// that body is being discarded. Requests may be waiting behind the body.
    Body,
    Lent,
    /// Another protocol uses the connection until it ends.
    Upgraded,
    /// The server's side is closed, but the client's side is still open.
    Leaving,
    /// Like `Leaving`, but the server no longer waits for the client to close its side.
    Abandoned,
}

impl Reading {
    pub(super) fn is_leaving(self) -> bool {
        matches!(self, Reading::Leaving | Reading::Abandoned)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClientSide {
    Open,
    SaidLast,
    /// The client closed its sending side. At first, a full close looks the same.
    Ended,
    /// The connection failed while a request was waiting, usually because of a reset.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    Idle,
    /// hyper has a request, perhaps with its response, but has not written any bytes yet.
    Asked,
    Reply,
    /// The waiting bytes do not belong to a request: they are hyper's response to a head that it
    /// rejects. The two are indistinguishable while bytes of another response are waiting.
    Unasked,
    /// The client is abandoned for this reason. Closing the socket discards the data in it.
    Reset(Cut),
}

impl Writing {
    /// Whether bytes are waiting for the client to read them.
    pub(super) fn is_unflushed(self) -> bool {
        matches!(self, Writing::Reply | Writing::Unasked | Writing::Reset(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// End when nothing is in flight (HTTP/2: after GOAWAY).
    Finish,
    /// The client's header is late, or the client has disconnected. End now, but first send a 408
    /// if a header has begun.
    Expire,
    /// The client does not read its responses. Drop them, including the part in the kernel.
    Reset(Cut),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Orders {
    None,
    /// Park as soon as the connection is idle. Any order to end replaces this order.
    Park,
    /// The connection's task has not seen this order yet.
    Given(Order),
    /// The connection's task has seen an order and is carrying it out.
    Obeyed,
}

#[derive(Clone, Copy, Debug)]
struct State {
    server: ServedBy,
    reading: Reading,
    writing: Writing,
    orders: Orders,
    in_flight: bool,
}

impl State {
    fn is_legal(self) -> bool {
        use ServedBy::{Http2, Hyper, Opening, PlainPath};
        let State { server, reading, writing, orders, in_flight } = self;
        let reads = match reading {
            Reading::Handshake => server == Opening && writing == Writing::Idle && !in_flight,
            Reading::Idle => !in_flight,
            Reading::Head => server != Http2 && !in_flight,
            Reading::Serving => server != Opening && in_flight,
            Reading::Body => matches!(server, Hyper | PlainPath) && !in_flight,
            Reading::Lent => server == PlainPath && writing == Writing::Idle && !in_flight,
            Reading::Upgraded => server == Hyper && !in_flight,
            // hyper may drop a request after it has closed the server's side.
            Reading::Leaving => server != Opening,
            Reading::Abandoned => server == Hyper,
        };
        let writes = match writing {
            // While hyper has a request, its output is the response.
            Writing::Idle => !in_flight || server == PlainPath,
            Writing::Asked => matches!(server, Hyper | Http2),
            Writing::Unasked => matches!(server, Hyper | Http2) && !in_flight,
            Writing::Reply | Writing::Reset(_) => server != Opening,
        };
        reads && writes && (orders != Orders::Park || server == PlainPath)
    }
}

impl Connection {
    /// Asserts that the machines' states are compatible. Each method that changes a state ends with
    /// this check.
    #[inline]
    #[track_caller]
    pub(super) fn check(&self) {
        debug_assert!(self.state().is_legal(), "{:?}", self.state());
    }

    #[inline]
    fn state(&self) -> State {
        State {
            server: self.served_by.get(),
            reading: self.reading.get(),
            writing: self.writing.get(),
            orders: self.orders.get(),
            in_flight: self.in_flight() > 0,
        }
    }
}
