//! How HTTP ends on a connection: the server closes its side and then the client does, or the
//! connection is upgraded. Also detects that the client has gone.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncWrite, ReadBuf};

use super::{ClientSide, Connection, Orders, Reading, Writing};
use crate::base::clock::Tick;
use crate::base::tally::Tally;
use crate::metrics::kind::KindIndex;
use crate::os::socket::Socket;
use crate::request::exchanges::Exchange;
use crate::request::finished::Cut;

/// The end of an HTTP/1.1 connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Closing {
    /// Whether the client has no open request, so that it loses nothing if the socket closes at
    /// once.
    at_rest: bool,
    /// Whether the server's side is closed.
    shut: bool,
    /// Whether to read what the client still sends before the socket is closed.
    unread: bool,
    /// Whether requests may have arrived after the one that the client declared its last. Closing
    /// with unread requests would reset the connection.
    pipelined: bool,
}

impl Closing {
    /// Ends a connection without an open request, whose client loses nothing.
    pub(crate) fn at_rest() -> Self {
        Closing { at_rest: true, ..Closing::default() }
    }

    /// Closes the server's side, then reads until the client closes or the sweep ends the
    /// connection. `is_refusal`: the last response rejects what the client sent.
    pub(crate) fn poll(
        &mut self,
        socket: &mut Socket,
        connection: &Connection,
        is_refusal: bool,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.shut {
            ready!(Pin::new(&mut *socket).poll_shutdown(cx))?;
            self.shut = true;
            self.unread = !self.at_rest && connection.leave(is_refusal);
            self.pipelined = connection.has_said_last();
        }
        let mut discarded = [0; 4096];
        while (self.unread || self.pipelined) && !connection.is_abandoned() {
            let mut discarded = ReadBuf::new(&mut discarded);
            match socket.poll_read_raw(cx, &mut discarded) {
                Poll::Ready(Ok(())) if !discarded.filled().is_empty() => self.unread = true,
                Poll::Pending if self.unread => return Poll::Pending,
                _ => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The upgrades of a connection.
#[derive(Debug, Default)]
pub(super) struct Upgrades {
    /// The request whose 101 response is being sent: its kind, and when it began.
    sending: Cell<Option<(KindIndex, Tick)>>,
    /// The HTTP/1.1 exchange that another protocol continues.
    exchange: RefCell<Option<Exchange>>,
    /// Number of open exchanges: one over HTTP/1.1, or one for each upgraded HTTP/2 stream.
    open: Rc<Tally>,
}

impl Connection {
    /// Records that the server's side is closed. Returns whether more input may follow. In that
    /// case, closing would reset the connection, which may lose the response (RFC 9112 section
    /// 9.6).
    fn leave(&self, is_refusal: bool) -> bool {
        let unread = self.had_body.get() || self.reading.get() == Reading::Head;
        // The client did not request the end and may send more before it notices. An HTTP/2 client
        // sends frames for as long as the connection is open.
        let ordered = self.is_ordered();
        let surprised =
            if self.is_multiplexed() { ordered } else { !ordered && !self.has_said_last() };
        self.enter(Reading::Leaving);
        self.check();
        unread || surprised || is_refusal
    }

    /// Whether the client expects only the responses to the requests that it has sent.
    fn has_said_last(&self) -> bool {
        self.client_side.get() >= ClientSide::SaidLast && !self.is_multiplexed()
    }

    /// Whether the server's side is closed and the client's side is still open.
    pub(crate) fn is_leaving(&self) -> bool {
        self.reading.get().is_leaving()
    }

    /// Stops waiting for the client to close its side.
    pub(crate) fn abandon(&self) {
        self.reading.set(Reading::Abandoned);
        self.check();
    }

    fn is_abandoned(&self) -> bool {
        self.reading.get() == Reading::Abandoned
    }

    /// Records that the connection failed.
    pub(crate) fn set_gone(&self) {
        self.client_side.set(ClientSide::Gone);
    }

    /// Records that the client closed the connection or its sending side.
    pub(crate) fn set_ended(&self) {
        self.client_side.set(self.client_side.get().max(ClientSide::Ended));
    }

    /// Whether the client of a waiting request has disconnected. A response that is being written
    /// does not count: the client may have closed only its sending side.
    pub(crate) fn is_deserted(&self) -> bool {
        self.client_side.get() == ClientSide::Gone && self.waits_for_service()
    }

    /// Whether closing the socket discards the data that it holds.
    pub(crate) fn is_reset(&self) -> bool {
        matches!(self.writing.get(), Writing::Reset(_))
    }

    /// Makes closing the socket discard the data that it holds, for this reason.
    pub(crate) fn set_reset(&self, cut: Cut) {
        self.writing.set(Writing::Reset(cut));
        self.check();
    }

    /// Records that the input was ended before hyper had read it, and that the reason is counted.
    pub(crate) fn set_cut_off(&self) {
        self.cut_off.set(true);
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_off.get()
    }

    /// Number of requests that are lost if the connection is cut now: those in flight, and a
    /// response that is not completely in the socket.
    pub(crate) fn unanswered(&self) -> u64 {
        let open = self.in_flight() + self.upgrades();
        open.max(u64::from(self.is_unflushed()))
    }

    /// Begins an upgrade: a 101 was created for a request that began at `begun`. hyper has to send
    /// it and then give up the stream.
    pub(crate) fn begin_upgrade(&self, kind: KindIndex, begun: Tick) {
        self.upgrades.get_or_init(Box::default).sending.set(Some((kind, begun)));
    }

    /// Whether hyper has to give up the stream after the current response.
    pub(crate) fn is_upgrading(&self) -> bool {
        self.upgrades.get().is_some_and(|upgrades| upgrades.sending.get().is_some())
    }

    /// Records that hyper has sent the 101 and handed over the stream.
    pub(crate) fn end_http(&self) {
        let Some(upgrades) = self.upgrades.get() else { return };
        let Some((kind, begun)) = upgrades.sending.take() else { return };
        self.reading.set(Reading::Upgraded);
        self.check();
        upgrades.exchange.replace(Some(self.upgrade(kind, begun)));
        // The waker would keep the memory of hyper's task.
        self.waker.take();
    }

    /// Whether another protocol uses the connection.
    pub(crate) fn is_upgraded(&self) -> bool {
        self.reading.get() == Reading::Upgraded
    }

    /// Returns an upgraded exchange of this connection, which is open until dropped.
    pub(crate) fn upgrade(&self, kind: KindIndex, begun: Tick) -> Exchange {
        let open = Rc::clone(&self.upgrades.get_or_init(Box::default).open);
        self.lane.exchanges.upgrade(kind, begun, open)
    }

    /// Number of upgraded exchanges that are open.
    pub(super) fn upgrades(&self) -> u64 {
        self.upgrades.get().map_or(0, |upgrades| upgrades.open.get() as u64)
    }

    /// Records that the socket accepted bytes of the other protocol: if the client had stopped
    /// reading, it reads again.
    pub(crate) fn wrote_upgraded(&self) {
        self.orders.set(Orders::None);
        // No minimum rate applies, so the number does not matter.
        self.wrote(1);
        self.flushed();
    }
}
