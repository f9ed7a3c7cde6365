//! Bodies of responses, and bodies of requests that a retry can repeat.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::error::{BoxError, Error, ErrorKind};

/// Maximum bytes of a request's body that are kept for a retry.
const KEPT: usize = 64 << 10;

/// The body of a response. Reading it fails with [`ErrorKind::Deadline`] when the call's time is
/// up. Dropping it before its end cancels the callee's work.
pub struct Body {
    inner: hyper::body::Incoming,
    deadline: Option<Pin<Box<Sleep>>>,
    service: Arc<str>,
    /// Counts the request as in flight.
    _in_flight: Box<dyn Send>,
}

impl Body {
    pub(crate) fn new(
        inner: hyper::body::Incoming,
        deadline: Instant,
        service: &Arc<str>,
        in_flight: impl Send + 'static,
    ) -> Self {
        // A body that is already complete needs no timer.
        let deadline = (!inner.is_end_stream()).then(|| Box::pin(sleep_until(deadline)));
        Body { inner, deadline, service: Arc::clone(service), _in_flight: Box::new(in_flight) }
    }

    /// The body without the call's time limit, for streams that outlast the current request's
    /// response head.
    pub fn without_deadline(mut self) -> Self {
        self.deadline = None;
        self
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("service", &self.service).finish_non_exhaustive()
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(cx) {
            let broken = |error| Error::new(ErrorKind::Body, &this.service, None, error);
            return Poll::Ready(frame.map(|frame| frame.map_err(broken)));
        }
        let Some(deadline) = &mut this.deadline else { return Poll::Pending };
        ready!(deadline.as_mut().poll(cx));
        let reason = "the time is up in the response's body";
        Poll::Ready(Some(Err(Error::new(ErrorKind::Deadline, &this.service, None, reason))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The body of a request, of which each attempt sends a [`Replay`].
#[derive(Clone, Debug)]
pub(crate) struct Source(Arc<Mutex<Sent>>);

#[derive(Debug)]
struct Sent {
    /// `None` after its end, or after an error.
    body: Option<UnsyncBoxBody<Bytes, BoxError>>,
    /// Everything that was read from the body, while it is kept.
    parts: Vec<Part>,
    bytes: usize,
    is_kept: bool,
    /// Number of the current attempt. An earlier one may still be reading.
    attempt: u32,
}

#[derive(Clone, Debug)]
enum Part {
    Data(Bytes),
    Trailers(HeaderMap),
}

impl Source {
    pub(crate) fn new<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let body = (!body.is_end_stream()).then(|| body.map_err(Into::into).boxed_unsync());
        let sent = Sent { body, parts: Vec::new(), bytes: 0, is_kept: true, attempt: 0 };
        Source(Arc::new(Mutex::new(sent)))
    }

    fn lock(&self) -> MutexGuard<'_, Sent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another attempt can send the whole body.
    pub(crate) fn is_whole(&self) -> bool {
        self.lock().is_kept
    }

    /// The body of the next attempt.
    pub(crate) fn replay(&self) -> Replay {
        let mut sent = self.lock();
        sent.attempt += 1;
        Replay { source: self.clone(), attempt: sent.attempt, next: 0 }
    }
}

/// The body of one attempt.
#[derive(Debug)]
pub(crate) struct Replay {
    source: Source,
    attempt: u32,
    /// The next of the parts that an earlier attempt has read.
    next: usize,
}

impl HttpBody for Replay {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let mut sent = this.source.lock();
        if sent.attempt != this.attempt {
            return Poll::Ready(Some(Err("another attempt sends this body".into())));
        }
        if let Some(part) = sent.parts.get(this.next) {
            this.next += 1;
            return Poll::Ready(Some(Ok(part.clone().frame())));
        }
        let Some(body) = &mut sent.body else { return Poll::Ready(None) };
        let frame = match ready!(Pin::new(body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            end => {
                sent.body = None;
                sent.is_kept &= end.is_none();
                return Poll::Ready(end);
            }
        };
        let part = match frame.into_data().map_err(Frame::into_trailers) {
            Ok(data) => Part::Data(data),
            Err(Ok(trailers)) => Part::Trailers(trailers),
            Err(Err(frame)) => return Poll::Ready(Some(Ok(frame))),
        };
        if let Part::Data(data) = &part {
            sent.bytes += data.len();
        }
        if sent.is_kept && sent.bytes <= KEPT {
            sent.parts.push(part.clone());
            this.next += 1;
        } else {
            sent.is_kept = false;
            sent.parts = Vec::new();
        }
        Poll::Ready(Some(Ok(part.frame())))
    }

    fn is_end_stream(&self) -> bool {
        let sent = self.source.lock();
        let is_over = sent.body.as_ref().is_none_or(HttpBody::is_end_stream);
        is_over && self.next >= sent.parts.len()
    }

    fn size_hint(&self) -> SizeHint {
        let sent = self.source.lock();
        let rest = sent.parts.iter().skip(self.next);
        let bytes = rest.map(|part| if let Part::Data(data) = part { data.len() } else { 0 });
        let (bytes, mut hint) = (bytes.sum::<usize>() as u64, SizeHint::new());
        let body = sent.body.as_ref().map_or(SizeHint::with_exact(0), HttpBody::size_hint);
        hint.set_lower(body.lower() + bytes);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + bytes);
        }
        hint
    }
}

impl Part {
    fn frame(self) -> Frame<Bytes> {
        match self {
            Part::Data(data) => Frame::data(data),
            Part::Trailers(trailers) => Frame::trailers(trailers),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use http_body_util::Full;

    use super::*;

    fn next(body: &mut Replay) -> Option<usize> {
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(frame) = Pin::new(body).poll_frame(&mut cx) else { panic!("ready") };
        frame.map(|frame| frame.expect("no error").into_data().expect("data").len())
    }

    #[test]
    fn a_small_body_is_sent_as_often_as_needed() {
        let source = Source::new(Full::new(Bytes::from_static(b"order")));
        for _ in 0..3 {
            let mut body = source.replay();
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(5), false));
            assert_eq!((next(&mut body), next(&mut body)), (Some(5), None));
            assert!(body.is_end_stream() && source.is_whole());
        }
    }

    #[test]
    fn a_large_body_is_sent_once_but_one_that_was_not_read_can_wait() {
        let source = Source::new(Full::new(Bytes::from(vec![0; KEPT + 1])));
        let mut first = source.replay();
        assert!(source.is_whole());
        let mut second = source.replay();
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(Some(Err(_))) = Pin::new(&mut first).poll_frame(&mut cx) else {
            panic!("an earlier attempt must not read")
        };
        assert_eq!(next(&mut second), Some(KEPT + 1));
        assert!(!source.is_whole());
    }
}
