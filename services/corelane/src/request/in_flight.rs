//! A request in flight: its counters and times.

use std::cell::{Cell, OnceCell};
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Method, Request, StatusCode, Version};
use http_body::Body;

use crate::base::clock::{Millis, Tick};
use crate::load::table::{Expectation, LongestPoll};
use crate::message::grpc::Grpc;
use crate::metrics::RequestPhase;
use crate::metrics::kind::{KindIndex, method_index};
use crate::request::body::Incoming;
use crate::request::body_watch::BodyWatch;
use crate::request::connection::Connection;
use crate::request::current::{self, Current, CurrentRequest};
use crate::request::exchanges::Exchange;
use crate::request::finished::Cut;
use crate::request::lane_state::LaneState;
use crate::request::offload::{Away, FarAnswer, HandedOver, Outcome};
use crate::request::record::RequestRecord;
use crate::request::unsent::Sending;

/// Number of requests before an unknown kind starts on the slow lane.
const ESTABLISHED: u64 = 1000;

/// A request in flight, counted until it is dropped.
pub(crate) struct InFlightRequest {
    pub(crate) lane: Rc<LaneState>,
    pub(crate) current: Current,
    pub(super) head: bool,
    pub(super) plain: bool,
    /// Whether the client offers to switch protocols after the response.
    offers_upgrade: bool,
    pub(super) grpc: Option<Grpc>,
    /// The problem's status, if the response to a gRPC call reports a problem.
    pub(super) problem: Cell<Option<StatusCode>>,
    pub(super) version: Version,
    pub(super) made: Option<Tick>,
    pub(super) status: Option<StatusCode>,
    /// Nanoseconds that this request adds to the expected work of its lane.
    expected: u64,
    /// Lane time of the handler's earlier polls, in nanoseconds.
    held: u64,
    longest: u64,
    expectation: Expectation,
    /// The thread's CPU time when the current poll began, or 0 if it is not measured.
    poll_time: Cell<u64>,
    /// The response, while it is being sent over HTTP/2.
    sending: Option<Rc<Sending>>,
    /// Set while the response body is being streamed.
    streaming: OnceCell<Box<Exchange>>,
    /// The request record, if enabled. Lent to this thread while the request is being polled.
    pub(crate) request_record: Cell<Option<Box<RequestRecord>>>,
}

impl InFlightRequest {
    /// `has_body` means that part of the body has not been read.
    pub(crate) fn new<B: Body>(
        lane: &Rc<LaneState>,
        connection: &Rc<Connection>,
        request: &Request<B>,
        has_body: bool,
    ) -> Self {
        let begun = Tick::now();
        let accepted = connection.begin_request(has_body);
        let shared = lane.shared();
        let route = lane.routes.find(request.uri().path());
        let kind = KindIndex::new(route, method_index(request.method()));
        let foreseen = shared.load_table.foresee(kind);
        let accept = accepted.map(|accepted| begun.since(accepted));
        if let Some(accept) = accept {
            shared.metrics.observe_phase(kind, RequestPhase::Accept, accept);
        }
        let limit = lane.limits.body_bytes;
        let body =
            has_body.then(|| connection.bodies.watch(lane.clock.get(), limit, lane.receive_pace));
        shared.metrics.in_flight.add(1);
        shared.metrics.expected.add(foreseen.nanos);
        let request_record = lane.request_records.as_ref().map(|request_records| {
            let client = || connection.client_addr(request.headers());
            request_records.follow(request, kind, begun, accept, client)
        });
        let remaining = request_record.as_ref().map_or(Millis::MAX, |record| record.remaining);
        InFlightRequest {
            current: Current {
                connection: Rc::clone(connection),
                begun,
                remaining,
                allowed: lane.allowed.min(remaining).into(),
                kind: kind.into(),
                refused: Cell::new(None),
                body,
            },
            head: request.method() == Method::HEAD,
            plain: false,
            offers_upgrade: false,
            grpc: Grpc::of(request),
            problem: Cell::new(None),
            version: request.version(),
            made: None,
            status: None,
            expected: foreseen.nanos,
            held: 0,
            longest: 0,
            expectation: foreseen.kind,
            poll_time: Cell::new(0),
            sending: None,
            streaming: OnceCell::new(),
            request_record: Cell::new(request_record),
            lane: Rc::clone(lane),
        }
    }

    pub(crate) fn set_plain(&mut self) {
        self.plain = true;
    }

    /// Whether the client offers to use another protocol after the response.
    pub(crate) fn offer_upgrade(&mut self, offered: bool) {
        self.offers_upgrade = offered;
    }

    pub(crate) fn is_upgraded_by(&self, status: StatusCode) -> bool {
        self.offers_upgrade
            && match self.is_http2() {
                true => status.is_success(),
                false => status == StatusCode::SWITCHING_PROTOCOLS,
            }
    }

    /// Returns true if a response with this status accepts an upgrade and must wait until the
    /// connection can give up its stream.
    pub(crate) fn begin_upgrade(&self, status: StatusCode) -> bool {
        let upgraded = self.is_upgraded_by(status);
        if upgraded && self.is_http2() {
            let exchange = self.current.connection.upgrade(self.kind(), self.begun());
            self.lane.streams.set_upgrade(Box::new(exchange));
        } else if upgraded {
            self.current.connection.begin_upgrade(self.kind(), self.begun());
        }
        upgraded && !self.is_http2()
    }

    pub(crate) fn kind(&self) -> KindIndex {
        self.current.kind.get()
    }

    pub(crate) fn begun(&self) -> Tick {
        self.current.begun
    }

    pub(crate) fn body_limit(&self) -> u64 {
        self.current.body.as_ref().map_or(self.lane.limits.body_bytes, |(_, watch)| watch.limit())
    }

    pub(crate) fn within<T>(&self, poll: impl FnOnce() -> T) -> T {
        current::within(&self.current, &self.request_record, poll)
    }

    pub(crate) fn body_watch(&self) -> Option<Arc<BodyWatch>> {
        self.current.body.as_ref().map(|(_, watch)| Arc::clone(watch))
    }

    /// Whether the request's body timed out. The rest of the body is then indistinguishable from
    /// the next request, so an HTTP/1.1 connection ends with this response.
    pub(crate) fn body_timed_out(&self) -> bool {
        let timed_out = self.current.body.as_ref().is_some_and(|(_, watch)| watch.is_expired());
        if timed_out && self.version < Version::HTTP_2 {
            self.current.connection.close_after_reply();
        }
        timed_out
    }

    pub(crate) fn body_is_too_large(&self) -> bool {
        self.current.body.as_ref().is_some_and(|(_, watch)| watch.is_too_large())
    }

    /// Whether the request arrived over HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.version == Version::HTTP_2
    }

    pub(super) fn sending(&mut self) -> &Rc<Sending> {
        self.sending.get_or_insert_with(|| {
            let sending = Sending::new(self.current.connection.unsent());
            self.lane.streams.note(&sending);
            sending
        })
    }

    /// The reason why the server abandoned the client, if it did.
    fn cut(&self) -> Option<Cut> {
        let of_reply = self.sending.as_ref().and_then(|sending| sending.cut());
        of_reply.or_else(|| self.current.body.as_ref()?.1.cut())
    }

    pub(crate) fn expected(&self) -> u64 {
        self.expected
    }

    pub(crate) fn expect_anew(&mut self) -> u64 {
        self.settle_expected();
        let foreseen = self.lane.shared().load_table.foresee(self.kind());
        (self.expected, self.expectation) = (foreseen.nanos, foreseen.kind);
        self.lane.metrics().expected.add(self.expected);
        self.expected
    }

    #[inline]
    pub(crate) fn is_slow(&self) -> bool {
        self.expectation != Expectation::Short && self.is_better_there()
    }

    /// Whether a request that may take a long time belongs on the slow lane. Once the lane has
    /// other requests to protect, a request of unknown cost does the least harm on an idle slow
    /// lane.
    #[cold]
    fn is_better_there(&self) -> bool {
        let established = || self.lane.metrics().finished.get() >= ESTABLISHED;
        let slow = || self.lane.slow.as_ref();
        let is_long = match self.expectation {
            Expectation::Short | Expectation::Doubtful => false,
            Expectation::Long => true,
            Expectation::Unknown => established() && slow().is_some_and(|slow| slow.is_idle()),
        };
        is_long && !self.offers_upgrade
    }

    /// Whether only the request's own lane can serve it, because part of its body is unread or it
    /// may upgrade.
    #[inline]
    pub(crate) fn is_bound(&self) -> bool {
        self.offers_upgrade || self.current.body.is_some()
    }

    /// Hands the request to the slow lane of lane `to`, where it does not delay any request on its
    /// own lane. Returns the request if that slow lane cannot take it.
    pub(super) fn hand_over(
        &mut self,
        request: Request<Incoming>,
        to: usize,
        now: Tick,
    ) -> Result<Box<dyn Away>, Box<Request<Incoming>>> {
        let Some(slow) = &self.lane.slow else { return Err(Box::new(request)) };
        let request = HandedOver {
            request,
            facts: self.current.facts(),
            record: current::named_of(&self.request_record),
            allowed: self.current.allowed.get().into(),
            expected: self.expected,
        };
        let away = slow.hand_over(request, to, now)?;
        self.settle_expected();
        Ok(away)
    }

    /// Waits for the response to a handed-over request. Returns `None` if the slow lane has exited.
    pub(super) fn poll_away(
        &self,
        away: &mut dyn Away,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Outcome>> {
        let answer = away.poll(cx);
        self.current.allowed.set(away.allowed().into());
        answer.map(|answer| {
            let FarAnswer { outcome, started, held, longest, route, refused } = answer?;
            self.start(started);
            if let Some(template) = route {
                self.current.set_route(&template);
            }
            self.current.refused.set(refused);
            self.observe(started, Tick::now(), held, longest);
            Some(outcome)
        })
    }

    /// The time when the response head was ready.
    pub(crate) fn made(&self) -> Option<Tick> {
        self.made
    }

    pub(crate) fn asks_head(&self) -> bool {
        self.head
    }

    pub(crate) fn start(&self, now: Tick) {
        if let Some(mut request_record) = self.request_record.take() {
            request_record.start(now);
            self.request_record.set(Some(request_record));
        }
    }

    #[inline]
    pub(crate) fn begin_poll(&self, now: Tick) {
        self.lane.sends.before_handler(now, self.expected);
        self.lane.shared().running.begin(self.kind(), now);
        if self.expectation != Expectation::Short {
            self.begin_measured_poll();
        }
    }

    #[cold]
    fn begin_measured_poll(&self) {
        // Once the handler has been called, it is polled at once.
        if self.poll_time.get() == 0 {
            self.poll_time.set(Tick::of_thread());
        }
    }

    /// Duration of the current poll in nanoseconds, from the CPU clock if that was read.
    #[inline]
    fn take_poll(&self, by_wall: u64) -> u64 {
        match self.poll_time.take() {
            0 => by_wall,
            begun => Tick::of_thread().saturating_sub(begun),
        }
    }

    pub(crate) fn end_poll(&mut self, begun: Tick) {
        let held = Tick::now().since(begun);
        self.held += held;
        self.longest = self.longest.max(self.take_poll(held));
        self.lane.shared().running.end();
    }

    /// Records that the handler did not produce a response and will not be polled again.
    pub(crate) fn abandon_poll(&self) {
        self.lane.shared().running.end();
    }

    /// Updates the load table: the handler started at `started`, its last poll began at `polled`,
    /// and it returned at `now`.
    pub(crate) fn learn(&mut self, started: Tick, polled: Tick, now: Tick) {
        self.lane.shared().running.end();
        let held = now.since(polled);
        let is_cpu = self.poll_time.get() != 0;
        let longest = LongestPoll { nanos: self.longest.max(self.take_poll(held)), is_cpu };
        self.observe(started, now, self.held + held, longest);
    }

    /// Records the cost of a handler that started at `started`, returned at `now`, and held its
    /// thread for `held` nanoseconds.
    fn observe(&self, started: Tick, now: Tick, held: u64, longest: LongestPoll) {
        let (shared, service) = (self.lane.shared(), now.since(started));
        shared.load_table.observe(self.kind(), held, service, longest);
        let queued = started.since(self.begun());
        shared.metrics.observe_phase(self.kind(), RequestPhase::Queue, queued);
        shared.metrics.observe_phase(self.kind(), RequestPhase::Handler, service);
    }

    pub(crate) fn set_streaming(&self) {
        let enter = || self.lane.exchanges.stream(self.kind(), self.begun());
        self.streaming.get_or_init(|| Box::new(enter()));
    }

    pub(super) fn settle_expected(&mut self) {
        self.lane.metrics().expected.sub(mem::take(&mut self.expected));
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.settle_expected();
        let metrics = self.lane.metrics();
        // This is counted before the request is removed, so that no reader misses its result.
        metrics.finish(self.kind(), self.status);
        metrics.in_flight.sub(1);
        let mut request_record = self.request_record.take();
        if let Some(request_record) = &mut request_record {
            request_record.set_kind(self.kind());
            request_record.set_cut(self.cut());
        }
        if let Some((key, _)) = self.current.body {
            self.current.connection.bodies.forget(key);
        }
        let made = self.made.map(|made| (self.kind(), made));
        self.current.connection.end_request(made, request_record);
    }
}
