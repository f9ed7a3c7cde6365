//! A connection's requests, and their responses until the client has read them.

use std::rc::Rc;
use std::time::Duration;

use http::HeaderMap;

use super::{ClientSide, Connection, Order, Orders, Reading, ServedBy, Writing};
use crate::base::clock::Tick;
use crate::metrics::kind::KindIndex;
use crate::metrics::{Refusal, RequestPhase};
use crate::request::finished::Cut;
use crate::request::record::RequestRecord;
use crate::request::unsent::Unsent;

/// A response that was created in this turn of the connection and has not been written yet.
#[derive(Debug)]
pub(super) struct Unwritten {
    kind: KindIndex,
    made: Tick,
    turn: u32,
    request_record: Option<Box<RequestRecord>>,
}

impl Connection {
    pub(crate) fn set_said_last(&self, last: bool) {
        let side = if last { ClientSide::SaidLast } else { ClientSide::Open };
        if self.client_side.get() < ClientSide::Ended {
            self.client_side.set(side);
        }
    }

    /// A connection's first request receives the accept time.
    pub(crate) fn begin_request(&self, has_body: bool) -> Option<Tick> {
        self.had_body.set(self.had_body.get() || has_body);
        self.reading.set(Reading::Serving);
        self.begun.set(self.begun.get() + 1);
        self.check();
        if self.lane.limits.connection_requests.is_some_and(|limit| self.begun.get() >= limit) {
            self.retire(Refusal::Requests);
        }
        self.accepted.take()
    }

    /// Requests with pending or partly written responses.
    pub(super) fn in_flight(&self) -> u64 {
        self.begun.get() - self.served.get()
    }

    /// `made` is the request's kind and the time when its response head was ready.
    pub(crate) fn end_request(
        &self,
        made: Option<(KindIndex, Tick)>,
        request_record: Option<Box<RequestRecord>>,
    ) {
        // For pipelined requests, the last bytes of the previous response are sent with this one.
        self.observe_write(self.unwritten.take());
        let turn = self.turn.get();
        let request_record = self.with_cut(request_record);
        match (made, request_record) {
            (Some((kind, made)), request_record) => {
                self.unwritten.replace(Some(Unwritten { kind, made, turn, request_record }));
            }
            (None, Some(request_record)) => self.lane.end_request_record(request_record, None),
            (None, None) => {}
        }
        self.served.set(self.served.get() + 1);
        debug_assert!(self.served.get() <= self.begun.get(), "a request ended twice");
        if self.in_flight() == 0 && !self.is_leaving() {
            let by_hyper = self.served_by.get() == ServedBy::Hyper;
            self.enter(if by_hyper { Reading::Body } else { Reading::Idle });
        }
        self.check();
    }

    pub(crate) fn await_body(&self) {
        if self.is_silent() {
            self.enter(Reading::Body);
            self.check();
        }
    }

    pub(crate) fn await_request(&self) {
        if self.is_in_body() {
            self.enter(Reading::Idle);
            self.check();
        }
    }

    /// Records the reason why the server abandoned the client, if it did.
    fn with_cut(
        &self,
        mut request_record: Option<Box<RequestRecord>>,
    ) -> Option<Box<RequestRecord>> {
        if let Some(request_record) = &mut request_record {
            request_record.set_cut(self.cut());
        }
        request_record
    }

    fn cut(&self) -> Option<Cut> {
        match (self.writing.get(), self.orders.get()) {
            (Writing::Reset(cut), _) | (_, Orders::Given(Order::Reset(cut))) => Some(cut),
            _ => None,
        }
    }

    /// Makes the next response the last one because of the connection's age or number of requests,
    /// which is not a failure.
    pub(super) fn retire(&self, reason: Refusal) {
        if self.last.replace(true) {
            return;
        }
        self.lane.metrics().refuse(reason);
        if self.is_multiplexed() {
            self.tell(Order::Finish);
        }
    }

    /// Makes the next response on an HTTP/1.1 connection the last.
    pub(crate) fn close_after_reply(&self) {
        self.last.set(true);
    }

    pub(crate) fn is_last_reply(&self) -> bool {
        self.last.get()
    }

    /// Adds the load report to a response, if one is due.
    pub(crate) fn report_load(&self, headers: &mut HeaderMap) {
        self.lane.report_load(&self.reported, headers);
    }

    /// Records that hyper has called the service, or that its task is writing a response from
    /// Corelane. The next output is then not hyper's own response.
    pub(crate) fn expect_reply(&self) {
        self.writing.set(match self.writing.get() {
            Writing::Idle | Writing::Asked => Writing::Asked,
            Writing::Reply | Writing::Unasked => Writing::Reply,
            Writing::Reset(cut) => Writing::Reset(cut),
        });
        self.check();
    }

    /// Records whether the service was called for a request whose future hyper has not polled yet.
    pub(crate) fn set_unpolled(&self, unpolled: bool) {
        self.unpolled.set(unpolled);
    }

    /// Whether the last request's future was created but not polled. True once per request.
    pub(crate) fn take_unpolled(&self) -> bool {
        self.unpolled.take()
    }

    pub(crate) fn is_unflushed(&self) -> bool {
        self.writing.get().is_unflushed()
    }

    pub(crate) fn writing(&self) {
        self.writing.set(Writing::Reply);
        self.check();
    }

    /// Records that hyper has bytes to write. Returns whether these bytes are hyper's own response
    /// to a head that it rejects.
    pub(crate) fn hyper_writing(&self) -> bool {
        self.writing.set(match self.writing.get() {
            Writing::Idle | Writing::Unasked => Writing::Unasked,
            Writing::Asked | Writing::Reply => Writing::Reply,
            Writing::Reset(cut) => Writing::Reset(cut),
        });
        self.check();
        self.writing.get() == Writing::Unasked && !self.is_multiplexed()
    }

    /// Records that the socket accepted bytes of a response.
    #[inline]
    pub(crate) fn wrote(&self, bytes: usize) {
        self.accepted_bytes.set(self.accepted_bytes.get() + bytes as u64);
    }

    pub(crate) fn unsent(&self) -> &Rc<Unsent> {
        self.unsent.get_or_init(|| Unsent::new(&self.lane.unsent))
    }

    pub(crate) fn flushed(&self) {
        self.writing.set(Writing::Idle);
        self.check();
        self.observe_write(self.unwritten.take());
    }

    pub(crate) fn hyper_flushed(&self) {
        self.writing.set(if self.in_flight() > 0 { Writing::Asked } else { Writing::Idle });
        self.check();
        self.observe_write(self.unwritten.take());
    }

    /// Whether an HTTP/1.1 request is waiting for its service rather than for its client. During
    /// that time, hyper does not read, so it cannot notice that the client disconnects.
    pub(crate) fn waits_for_service(&self) -> bool {
        self.in_flight() > 0
            && !self.is_multiplexed()
            && !self.is_unflushed()
            && !self.bodies.is_awaited()
    }

    /// Records the time that writing a response took. If the socket accepted the response in the
    /// same turn, either at once or with the lane's batch, the time is too short to be worth a
    /// clock read.
    fn observe_write(&self, written: Option<Unwritten>) {
        if let Some(Unwritten { kind, made, turn, request_record }) = written {
            let at_once = turn == self.turn.get();
            let took = if at_once { 0 } else { Tick::now().since(made) };
            self.lane.metrics().observe_phase(kind, RequestPhase::Write, took);
            if let Some(request_record) = request_record {
                self.lane.end_request_record(request_record, Some(took));
            }
        }
    }

    /// Kind and age of the last response that the service has created and the client has not fully
    /// read.
    pub(crate) fn unread(&self, now: Tick) -> Option<(KindIndex, Duration)> {
        let unwritten = self.unwritten.borrow();
        let Unwritten { kind, made, .. } = unwritten.as_ref()?;
        Some((*kind, Duration::from_nanos(now.since(*made))))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        debug_assert_eq!(self.in_flight(), 0, "a request outlives its connection");
        // The end of this response was not written to the socket.
        let request_record = self.unwritten.take().and_then(|unwritten| unwritten.request_record);
        if let Some(request_record) = self.with_cut(request_record) {
            self.lane.end_request_record(request_record, None);
        }
    }
}
