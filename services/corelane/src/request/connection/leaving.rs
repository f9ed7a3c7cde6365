//! The end of HTTP on a connection: the server closes its side and then the client closes its own,
//! or the connection is upgraded. Also detects that the client has disconnected.

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
    /// Whether the socket can close immediately, because the client has no open request.
    at_rest: bool,
    shut: bool,
    /// Whether to read what the client is still sending before closing the socket.
    unread: bool,
    /// Whether more requests may have arrived after the one that the client marked as its last.
    /// Closing the socket while requests are unread would reset the connection.
    pipelined: bool,
}

impl Closing {
    /// The end of a connection that has no open request, so that its client loses nothing.
    pub(crate) fn at_rest() -> Self {
        Closing { at_rest: true, ..Closing::default() }
    }

    /// Closes the server's side, and then reads until the client closes or the sweep ends the
    /// connection. `is_refusal` means that the last response rejects the client's input.
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

#[derive(Debug, Default)]
pub(super) struct Upgrades {
    /// Kind and start time of the request whose 101 is being sent.
    sending: Cell<Option<(KindIndex, Tick)>>,
    /// The HTTP/1.1 exchange that another protocol continues.
    exchange: RefCell<Option<Exchange>>,
    /// Open exchanges: one over HTTP/1.1, or one per upgraded HTTP/2 stream.
    open: Rc<Tally>,
}

impl Connection {
    /// Records that the server's side is closed. Returns whether more input may follow: closing
    /// would then reset the connection and may lose the response (RFC 9112 section 9.6).
    fn leave(&self, is_refusal: bool) -> bool {
        let unread = self.had_body.get() || self.reading.get() == Reading::Head;
        // The client did not announce the end and may send more requests before it notices. An
        // HTTP/2 client sends frames for as long as the connection is open.
        let ordered = self.is_ordered();
        let surprised =
            if self.is_multiplexed() { ordered } else { !ordered && !self.has_said_last() };
        self.enter(Reading::Leaving);
        self.check();
        unread || surprised || is_refusal
    }

    /// Whether the client expects only responses to the requests that it has sent.
    fn has_said_last(&self) -> bool {
        self.client_side.get() >= ClientSide::SaidLast && !self.is_multiplexed()
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.reading.get().is_leaving()
    }

    pub(crate) fn abandon(&self) {
        self.reading.set(Reading::Abandoned);
        self.check();
    }

    fn is_abandoned(&self) -> bool {
        self.reading.get() == Reading::Abandoned
    }

    pub(crate) fn set_gone(&self) {
        self.client_side.set(ClientSide::Gone);
    }

    pub(crate) fn set_ended(&self) {
        self.client_side.set(self.client_side.get().max(ClientSide::Ended));
    }

    /// Whether the client of a waiting request has disconnected. A response being written does not
    /// count, because the client may have closed only its sending side.
    pub(crate) fn is_deserted(&self) -> bool {
        self.client_side.get() == ClientSide::Gone && self.waits_for_service()
    }

    pub(crate) fn is_reset(&self) -> bool {
        matches!(self.writing.get(), Writing::Reset(_))
    }

    pub(crate) fn set_reset(&self, cut: Cut) {
        self.writing.set(Writing::Reset(cut));
        self.check();
    }

    pub(crate) fn set_cut_off(&self) {
        self.cut_off.set(true);
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_off.get()
    }

    /// Number of requests that would be lost if the connection were cut now: requests in flight,
    /// and a request whose response is not yet completely in the socket.
    pub(crate) fn unanswered(&self) -> u64 {
        let open = self.in_flight() + self.upgrades();
        open.max(u64::from(self.is_unflushed()))
    }

    /// Begins an upgrade for a request that began at `begun`: hyper must send the 101 and then give
    /// up the stream.
    pub(crate) fn begin_upgrade(&self, kind: KindIndex, begun: Tick) {
        self.upgrades.get_or_init(Box::default).sending.set(Some((kind, begun)));
    }

    /// Whether hyper must give up the stream after the current response.
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
        // If the waker were kept, the memory of hyper's task could not be freed.
        self.waker.take();
    }

    pub(crate) fn is_upgraded(&self) -> bool {
        self.reading.get() == Reading::Upgraded
    }

    pub(crate) fn upgrade(&self, kind: KindIndex, begun: Tick) -> Exchange {
        let open = Rc::clone(&self.upgrades.get_or_init(Box::default).open);
        self.lane.exchanges.upgrade(kind, begun, open)
    }

    pub(super) fn upgrades(&self) -> u64 {
        self.upgrades.get().map_or(0, |upgrades| upgrades.open.get() as u64)
    }

    /// Records that the socket accepted bytes of the other protocol: a client that had stopped
    /// reading has resumed.
    pub(crate) fn wrote_upgraded(&self) {
        self.orders.set(Orders::None);
        // No minimum rate applies, so the number of bytes is irrelevant.
        self.wrote(1);
        self.flushed();
    }
}
