//! The body of a reply while it is sent.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Either, Full};
use pin_project_lite::pin_project;

use crate::base::clock::Tick;
use crate::base::error::BoxError;
use crate::request::current;
use crate::request::in_flight::InFlightRequest;
use crate::request::streams::BodyStep;

/// Maximum bytes that an HTTP/2 stream hands to hyper at a time. hyper keeps them until the
/// client's window accepts them, and does not show how long they wait, so the amount is small. With
/// a much smaller piece, more windows of the client would end within a piece, each with a small
/// frame.
const PIECE: usize = 64 * 1024;

pin_project! {
    /// The body of a reply. The request ends when it is dropped.
    pub(crate) struct ReplyBody<B> {
        #[pin]
        inner: Either<B, Full<Bytes>>,
        // The rest of the last frame, over HTTP/2.
        rest: Bytes,
        in_flight: InFlightRequest,
    }
}

impl<B> ReplyBody<B> {
    /// Completes the reply to a request, which was made `now`.
    pub(crate) fn reply(
        response: Response<Either<B, Full<Bytes>>>,
        mut in_flight: InFlightRequest,
        now: Tick,
    ) -> Response<Self>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let (mut head, mut inner) = response.into_parts();
        in_flight.complete(&mut head, &inner, now);
        if in_flight.asks_head() {
            inner = Either::Right(Full::default());
        }
        Response::from_parts(head, ReplyBody { inner, rest: Bytes::new(), in_flight })
    }

    /// The request in flight, which ends when the body is dropped.
    pub(crate) fn in_flight(&self) -> &InFlightRequest {
        &self.in_flight
    }
}

impl<B> Body for ReplyBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.project();
        let lane = &this.in_flight.lane;
        if !this.rest.is_empty() {
            lane.streams.note(BodyStep::Gave);
            let piece = this.rest.split_to(PIECE.min(this.rest.len()));
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        let mut inner = this.inner;
        let caught = || catch_unwind(AssertUnwindSafe(|| inner.as_mut().poll_frame(cx)));
        let polled =
            current::lending(&this.in_flight.request_record, caught).unwrap_or_else(|_| {
                lane.metrics().panics.add(1);
                tracing::error!(lane = lane.index, "the body of a reply panicked");
                Poll::Ready(Some(Err("the body of a reply panicked".into())))
            });
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
        if !this.in_flight.is_http2() {
            return polled;
        }
        lane.streams.note(if polled.is_pending() { BodyStep::Waits } else { BodyStep::Gave });
        let frame = ready!(polled).map(|frame| {
            frame.map(|frame| match frame.into_data() {
                Ok(mut data) => {
                    *this.rest = data.split_off(PIECE.min(data.len()));
                    Frame::data(data)
                }
                Err(frame) => frame,
            })
        });
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.inner.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}
