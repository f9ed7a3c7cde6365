//! The state of a connection: five machines, and which of their states go together.
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
//! How long it has been in a state is the [`Countdown`](super::due::Countdown) of its deadline, which
//! only sweeps set.

use super::Connection;
use crate::request::finished::Cut;

/// What serves a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedBy {
    /// Nothing yet: its protocol is not known, or it was just resumed.
    Opening,
    /// The plain path.
    PlainPath,
    /// hyper, over HTTP/1.1, for the rest of its life.
    Hyper,
    /// hyper, over HTTP/2. Received bytes do not imply that the head of a request has begun.
    Http2,
}

/// How far its requests are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// No request has begun.
    Idle,
    /// The TLS handshake has begun.
    Handshake,
    /// The first byte of an HTTP/1.1 request arrived, but not the whole head.
    Head,
    /// Requests are in flight.
    Serving,
    /// All requests are answered, and the next one is not waited for yet: the service still reads
    /// the last body, or the rest of that is being discarded. Requests may wait behind the body.
    Body,
    /// Another lane serves it.
    Lent,
    /// Another protocol uses the connection, to its end.
    Upgraded,
    /// Our side is closed, the client's side is still open.
    Leaving,
    /// As `Leaving`, and it no longer waits for the client's side.
    Abandoned,
}

impl Reading {
    /// Whether our side is closed.
    pub(super) fn is_leaving(self) -> bool {
        matches!(self, Reading::Leaving | Reading::Abandoned)
    }
}

/// What the client has said of its side of an HTTP/1.1 connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClientSide {
    Open,
    /// The request that began last is the last.
    SaidLast,
    /// It closed its sending side. A full close looks the same at first.
    Ended,
    /// The connection failed while a request waited, usually by a reset.
    Gone,
}

/// How far its replies are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// There is nothing to write.
    Idle,
    /// hyper has a request, and maybe the reply to it, but has written no bytes yet.
    Asked,
    /// Bytes of replies wait for the client to read.
    Reply,
    /// Bytes wait that are for no request: hyper's reply to a head that it rejects. They are
    /// indistinguishable from other output while bytes of a reply wait.
    Unasked,
    /// The client is abandoned for this reason. Closing the socket discards the data that it holds.
    Reset(Cut),
}

impl Writing {
    /// Whether bytes wait for the client to read.
    pub(super) fn is_unflushed(self) -> bool {
        matches!(self, Writing::Reply | Writing::Unasked | Writing::Reset(_))
    }
}

/// An order to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// End as soon as nothing is in flight (HTTP/2: after GOAWAY).
    Finish,
    /// The client did not complete its header in time, or has disconnected: end now, after a 408 if
    /// a header had begun.
    Expire,
    /// The client does not read its replies: drop them, including the kernel's part.
    Reset(Cut),
}

/// What its lane has ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Orders {
    None,
    /// To park as soon as it is idle. Any order to end replaces this.
    Park,
    /// Its task has not seen this order yet.
    Given(Order),
    /// Its task has seen an order, and carries it out.
    Obeyed,
}

/// The states of all machines at one time.
#[derive(Clone, Copy, Debug)]
struct State {
    server: ServedBy,
    reading: Reading,
    writing: Writing,
    orders: Orders,
    in_flight: bool,
}

impl State {
    /// The legal combinations.
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
            // hyper may drop a request after it has closed our side.
            Reading::Leaving => server != Opening,
            Reading::Abandoned => server == Hyper,
        };
        let writes = match writing {
            // As long as hyper has a request, its output is the reply.
            Writing::Idle => !in_flight || server == PlainPath,
            Writing::Asked => matches!(server, Hyper | Http2),
            Writing::Unasked => matches!(server, Hyper | Http2) && !in_flight,
            Writing::Reply | Writing::Reset(_) => server != Opening,
        };
        reads && writes && (orders != Orders::Park || server == PlainPath)
    }
}

impl Connection {
    /// Asserts that the states of its machines go together. Each method that changes one ends with
    /// this.
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
