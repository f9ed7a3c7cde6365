//! The body of a reply while it is sent.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Either;
use pin_project_lite::pin_project;

use crate::base::clock::Tick;
use crate::base::error::BoxError;
use crate::request::current;
use crate::request::in_flight::InFlightRequest;
use crate::request::offload::FarBody;
use crate::request::unsent::Piece;

/// Maximum bytes that an HTTP/2 stream hands to hyper at a time. hyper keeps them until the
/// client's window accepts them, and a stream that has handed over all its bytes cannot be ended, so
/// the amount is small. With a much smaller piece, more windows of the client would end within a
/// piece, each with a small frame.
const PIECE: usize = 64 * 1024;

pin_project! {
    /// The body of a reply. The request ends when it is dropped.
    pub(crate) struct ReplyBody<B> {
        #[pin]
        inner: Either<B, OwnBody>,
        // The rest of the last frame, over HTTP/2.
        rest: Option<Box<Piece>>,
        // It has had a frame.
        given: bool,
        in_flight: Box<InFlightRequest>,
    }
}

impl<B> ReplyBody<B> {
    /// Completes the reply to a request, which was made `now`.
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

    /// The request in flight, which ends when the body is dropped.
    pub(crate) fn in_flight(&self) -> &InFlightRequest {
        &self.in_flight
    }
}

impl<B> ReplyBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    /// Polls the service for the next part of the body.
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
                tracing::error!(lane = lane.index, route, "the body of a reply panicked");
                Poll::Ready(Some(Err("the body of a reply panicked".into())))
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
        // The plain path knows whether a reply is whole.
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

/// A body that the server has, and not the service of the lane. As small as [`Bytes`]: replies are moved
/// several times.
pub(crate) enum OwnBody {
    Memory(Bytes),
    /// From another thread.
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
