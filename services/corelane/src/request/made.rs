//! A response whose head is ready: the fields that the server adds, and the body while it is being
//! sent.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue};
use http::response::Parts;
use http::{HeaderMap, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Either};
use pin_project_lite::pin_project;
use tokio::task::spawn_local;

use crate::base::clock::Tick;
use crate::base::error::BoxError;
use crate::base::phase::Phase;
use crate::message::problem::{self, Problem};
use crate::message::request_id::{ID_FIELD, X_REQUEST_ID};
use crate::request::connection::Order;
use crate::request::current;
use crate::request::in_flight::InFlightRequest;
use crate::request::lane_state::{LANE, REPLICA};
use crate::request::offload::FarBody;
use crate::request::record::RequestRecords;
use crate::request::retry_budget::NOT_STARTED;
use crate::request::service::HttpService;
use crate::request::unsent::Piece;
use crate::request::upload::DISCARDED;

/// Maximum bytes that an HTTP/2 stream hands to hyper at a time. The limit is small because hyper
/// keeps the bytes until the client's window accepts them, and a stream cannot be reset once hyper
/// has all of its bytes. With much smaller pieces, the end of the client's window would more often
/// fall within a piece, and each of these splits costs a small extra frame.
const PIECE: usize = 64 * 1024;

const ID_LINE: &[u8] = b"x-request-id: ";

/// A response whose head is ready.
pub(crate) type Made<S> = Response<ReplyBody<<S as HttpService>::Body>>;

/// The response for a handler's result. `wrap` wraps its body.
#[inline]
pub(super) fn finished<A, B>(
    result: Result<Response<A>, Problem>,
    in_flight: &InFlightRequest,
    wrap: impl FnOnce(A) -> Either<B, OwnBody>,
) -> Response<Either<B, OwnBody>>
where
    A: Body<Data = Bytes>,
{
    match result {
        Ok(response) if response.status().is_informational() => informational(response, in_flight),
        Ok(mut response) => {
            if response.status() == StatusCode::SERVICE_UNAVAILABLE || in_flight.grpc.is_some() {
                // The service may have copied this header from a server behind it, whose handler
                // did run.
                response.headers_mut().remove(NOT_STARTED);
            }
            if in_flight.grpc.is_some() && problem::is_document(response.headers()) {
                let document = response.map(|body| in_flight.first_part(body));
                return in_flight.tell_call(document).map(own);
            }
            response.map(wrap)
        }
        Err(problem) => refused(problem, in_flight),
    }
}

fn refused<B>(problem: Problem, in_flight: &InFlightRequest) -> Response<Either<B, OwnBody>> {
    let reply = problem.into_reply(|document| document);
    if in_flight.grpc.is_some() {
        return in_flight.tell_call(reply).map(own);
    }
    reply.map(own)
}

/// The response for a status that is final only if the client offered an upgrade (RFC 9110 section
/// 15.2).
#[cold]
#[inline(never)]
fn informational<A, B>(
    response: Response<A>,
    in_flight: &InFlightRequest,
) -> Response<Either<B, OwnBody>> {
    let status = response.status();
    if in_flight.is_upgraded_by(status) {
        return response.map(|_| own(Bytes::new()));
    }
    tracing::error!(lane = in_flight.lane.index, %status, "a service returned no final response");
    refused(Problem::from(StatusCode::INTERNAL_SERVER_ERROR), in_flight)
}

fn own<B>(body: Bytes) -> Either<B, OwnBody> {
    Either::Right(OwnBody::Memory(body))
}

impl InFlightRequest {
    /// Completes the head of a response created at `now`. `body` is the body that a GET would
    /// receive.
    pub(crate) fn complete(&mut self, head: &mut Parts, body: &impl Body, now: Tick) {
        let status = self.problem.get().unwrap_or(head.status);
        self.status = Some(status);
        self.made = Some(now);
        self.settle_expected();
        if let Some((key, _)) = self.current.body {
            self.current.connection.bodies.set_answered(key);
        }
        if let Some(reason) = self.current.refused.get() {
            self.lane.metrics().refuse_request(reason);
        }
        let duration = now.since(self.begun());
        self.lane.metrics().observe_duration(self.kind(), duration);
        // RFC 9110 section 9.3.2: HEAD has the header fields of GET without a body.
        if self.head
            && !matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
            && let Some(length) = body.size_hint().exact()
            && !head.headers.contains_key(CONTENT_LENGTH)
        {
            head.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        if !self.plain {
            self.name(&mut head.headers);
        }
        self.current.connection.report_load(&mut head.headers);
        let kind = self.kind();
        if let Some(request_record) = self.request_record.get_mut() {
            if let Some(trace) = request_record.recorded_trace() {
                self.lane.metrics().exemplify(kind, duration, trace);
            }
            request_record.answer(status, now);
            request_record.give(0, self.head || body.is_end_stream());
        }
        let drains = self.lane.phase.get() != Phase::Serving;
        if drains || self.current.connection.is_last_reply() || !self.discard_body() {
            if head.status == StatusCode::SWITCHING_PROTOCOLS {
                // The connection switches protocols anyway.
            } else if self.version < Version::HTTP_2 {
                head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
            } else {
                self.current.connection.tell(Order::Finish);
            }
        }
    }

    /// Adds the headers that identify the replica, the lane and the request.
    pub(crate) fn name(&self, fields: &mut HeaderMap) {
        self.lane.sign(fields);
        let request_record = self.request_record.take();
        if let Some(id) =
            request_record.as_ref().and_then(|request_record| request_record.id.as_ref()?.header())
        {
            fields.insert(X_REQUEST_ID, id);
        }
        self.request_record.set(request_record);
    }

    pub(crate) fn write_names(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.lane.signature_lines());
        let request_record = self.request_record.take();
        if let Some(id) =
            request_record.as_ref().and_then(|request_record| request_record.id.as_ref())
        {
            out.extend_from_slice(ID_LINE);
            id.read(|text| out.extend_from_slice(text));
            out.extend_from_slice(b"\r\n");
        }
        self.request_record.set(request_record);
    }

    pub(crate) fn names(&self, field: &str) -> bool {
        match field {
            REPLICA | LANE => !self.lane.signature_lines().is_empty(),
            ID_FIELD => self.lane.request_records.as_ref().is_some_and(RequestRecords::names),
            _ => false,
        }
    }

    /// Discards the part of the request body that the service left unread, so that an HTTP/1.1
    /// connection can continue. Returns false if that would cost more than a new connection. The
    /// response must then announce that the connection ends (RFC 9112 section 9.6).
    fn discard_body(&self) -> bool {
        let Some((_, watch)) = &self.current.body else { return true };
        let Some(body) = watch.take_dropped() else { return true };
        let few = body.size_hint().lower() <= DISCARDED;
        if few {
            spawn_local(discard(body));
        }
        few
    }
}

/// Reads a body up to [`DISCARDED`] bytes. hyper closes the connection if more bytes follow.
async fn discard(mut body: hyper::body::Incoming) {
    let mut left = DISCARDED;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
        match left.checked_sub(bytes) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

pin_project! {
    /// A response body. Dropping it ends the request.
    pub(crate) struct ReplyBody<B> {
        #[pin]
        inner: Either<B, OwnBody>,
        // Over HTTP/2, the rest of the last frame.
        rest: Option<Box<Piece>>,
        // Whether the body has produced a frame.
        given: bool,
        in_flight: Box<InFlightRequest>,
    }
}

impl<B> ReplyBody<B> {
    pub(crate) fn reply(
        response: Response<Either<B, OwnBody>>,
        mut in_flight: Box<InFlightRequest>,
        now: Tick,
    ) -> Response<Self>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let (mut head, mut inner) = response.into_parts();
        in_flight.complete(&mut head, &inner, now);
        if in_flight.asks_head() {
            inner = Either::Right(OwnBody::Memory(Bytes::new()));
        }
        Response::from_parts(head, ReplyBody { inner, rest: None, given: false, in_flight })
    }

    pub(crate) fn in_flight(&self) -> &InFlightRequest {
        &self.in_flight
    }
}

impl<B> ReplyBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    #[inline]
    pub(crate) fn poll_service(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.project();
        let lane = &this.in_flight.lane;
        let mut inner = this.inner;
        let caught = || catch_unwind(AssertUnwindSafe(|| inner.as_mut().poll_frame(cx)));
        let mut polled =
            current::lending(&this.in_flight.request_record, caught).unwrap_or_else(|_| {
                lane.metrics().panics.add(1);
                let route = lane.route(this.in_flight.kind());
                tracing::error!(lane = lane.index, route, "the body of a response panicked");
                Poll::Ready(Some(Err("the body of a response panicked".into())))
            });
        if this.in_flight.grpc.is_some()
            && let Poll::Ready(Some(Ok(frame))) = &mut polled
        {
            this.in_flight.correct_trailers(frame);
        }
        if let (Some(request_record), Poll::Ready(given)) =
            (this.in_flight.request_record.get_mut(), &polled)
        {
            match given {
                Some(Ok(frame)) => {
                    let ended = inner.is_end_stream() || inner.size_hint().exact() == Some(0);
                    request_record.give(frame.data_ref().map_or(0, Bytes::len), ended);
                }
                // Aborted. A body that panicked is not polled again.
                Some(Err(_)) => {}
                None => request_record.give(0, true),
            }
        }
        // On the plain path, the connection itself knows whether a response is complete.
        if !this.in_flight.plain {
            let streams = match &polled {
                Poll::Pending => true,
                Poll::Ready(Some(_)) => mem::replace(this.given, true),
                Poll::Ready(None) => false,
            };
            if streams {
                this.in_flight.set_streaming();
            }
        }
        polled
    }
}

impl<B> Body for ReplyBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Piece;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, BoxError>>> {
        let is_http2 = self.in_flight.is_http2();
        let length = self.size_hint().exact();
        if is_http2 {
            let this = self.as_mut().project();
            if let Some(rest) = this.rest.as_mut() {
                let piece = rest.take_front(PIECE);
                if rest.is_empty() {
                    *this.rest = None;
                }
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            ready!(this.in_flight.sending().poll_room(length, cx));
        }
        let polled = self.as_mut().poll_service(cx);
        let this = self.project();
        if is_http2 {
            let sending = this.in_flight.sending();
            if polled.is_pending() { sending.begin_part(length) } else { sending.end_part() }
        }
        let frame = ready!(polled);
        let wrap = |data: Bytes| match is_http2 {
            true => {
                let mut piece = Piece::of_stream(data, this.in_flight.sending());
                if piece.len() <= PIECE {
                    return piece;
                }
                let front = piece.take_front(PIECE);
                *this.rest = Some(Box::new(piece));
                front
            }
            false => Piece::of_connection(data, this.in_flight.current.connection.unsent()),
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(wrap))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.len() as u64);
        let inner = self.inner.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

/// A body that does not come from the lane's service. It is as small as [`Bytes`], because
/// responses are moved several times.
pub(crate) enum OwnBody {
    Memory(Bytes),
    Far(FarBody),
}

impl Body for OwnBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            OwnBody::Memory(bytes) if bytes.is_empty() => Poll::Ready(None),
            OwnBody::Memory(bytes) => Poll::Ready(Some(Ok(Frame::data(mem::take(bytes))))),
            OwnBody::Far(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            OwnBody::Memory(bytes) => bytes.is_empty(),
            OwnBody::Far(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            OwnBody::Memory(bytes) => SizeHint::with_exact(bytes.len() as u64),
            OwnBody::Far(body) => body.size_hint(),
        }
    }
}
