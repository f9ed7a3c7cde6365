//! Request bodies, bounded in size and time.

use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::base::error::BoxError;
use crate::request::body_watch::BodyWatch;
use crate::request::upload::BodyReader;

/// A request body. [`Limits::body_bytes`](crate::Limits::body_bytes) or the route's
/// [`RouteLimits`](crate::RouteLimits) limits its size, and
/// [`Timeouts::body`](crate::Timeouts::body) limits the wait for its bytes.
///
/// It implements [`http_body::Body`] and is `Send`, so it replaces hyper's body type anywhere,
/// including in an axum `Router`.
///
/// ```
/// use corelane::{BodyError, Incoming};
/// use http_body_util::BodyExt;
///
/// async fn length(body: Incoming) -> Result<usize, BodyError> {
///     Ok(body.collect().await?.to_bytes().len())
/// }
/// ```
///
/// Tests of a service can create requests without a server, with a body from bytes or text, or with
/// an empty default body. These bodies have no limits.
///
/// ```
/// use bytes::Bytes;
/// use corelane::Incoming;
/// use http::{Request, Response};
/// use http_body_util::{BodyExt, Full};
/// use tower::ServiceExt;
///
/// let shout = tower::service_fn(|request: Request<Incoming>| async move {
///     let text = request.into_body().collect().await?.to_bytes().to_ascii_uppercase();
///     Ok::<_, corelane::BodyError>(Response::new(Full::<Bytes>::from(text)))
/// });
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let reply = shout.oneshot(Request::post("/").body("hello".into())?).await?;
/// assert_eq!(reply.into_body().collect().await?.to_bytes(), "HELLO");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Incoming {
    content: Content,
}

// A request is moved several times, so rare or large parts are behind a pointer.
#[derive(Debug)]
enum Content {
    Whole(Bytes),
    Remaining(Box<Remaining>),
}

/// A body that has not fully arrived.
#[derive(Debug)]
struct Remaining {
    /// `None` at the end of the body.
    source: Option<BodySource>,
    /// Bytes that the service has read, or `None` after an error, which ends the body.
    read: Option<u64>,
    watch: Option<Arc<BodyWatch>>,
    /// Whether the lane may discard the unread rest of the body after the response.
    discards: bool,
}

#[derive(Debug)]
enum BodySource {
    Arriving(BodyReader),
    Hyper(hyper::body::Incoming),
}

impl<B: Into<Bytes>> From<B> for Incoming {
    fn from(body: B) -> Self {
        Incoming::whole(body.into())
    }
}

impl Default for Incoming {
    fn default() -> Self {
        Incoming::whole(Bytes::new())
    }
}

/// The reason why a request body ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The body exceeds [`Limits::body_bytes`](crate::Limits::body_bytes). If the response head is
    /// not ready yet, the client gets `413`, whatever the handler returns.
    #[error("the request body is larger than allowed")]
    TooLarge,
    /// The service waited longer than [`Timeouts::body`](crate::Timeouts::body) for the next bytes.
    /// Whatever the handler returns, the client gets `408`, or a truncated response if the head was
    /// already ready.
    #[error("timed out waiting for the request body")]
    TimedOut,
    /// The client disconnected or sent invalid HTTP.
    #[error("the request body could not be read: {0}")]
    Read(#[source] BoxError),
}

impl Incoming {
    pub(crate) fn new(
        inner: hyper::body::Incoming,
        watch: Option<Arc<BodyWatch>>,
        discards: bool,
    ) -> Self {
        match inner.is_end_stream() {
            true => Incoming::default(),
            false => Incoming::expected(BodySource::Hyper(inner), watch, discards),
        }
    }

    pub(crate) fn whole(body: Bytes) -> Self {
        Incoming { content: Content::Whole(body) }
    }

    pub(crate) fn arriving(body: BodyReader) -> Self {
        Incoming::expected(BodySource::Arriving(body), None, false)
    }

    fn expected(source: BodySource, watch: Option<Arc<BodyWatch>>, discards: bool) -> Self {
        let expected = Remaining { source: Some(source), read: Some(0), watch, discards };
        Incoming { content: Content::Remaining(Box::new(expected)) }
    }

    /// Sets the watch that shows the lane how long the service has been waiting for the body.
    pub(crate) fn set_watch(&mut self, watch: Option<Arc<BodyWatch>>) {
        if let Content::Remaining(body) = &mut self.content {
            body.watch = watch;
        }
    }
}

impl Remaining {
    /// Returns whether a body of this size is too large, and notifies the lane if it is.
    fn exceeds_limit(&self, bytes: u64) -> bool {
        let Some(watch) = &self.watch else { return false };
        let is_larger = bytes > watch.limit();
        if is_larger {
            watch.set_too_large();
        }
        is_larger
    }

    /// Returns an error if the next bytes did not arrive in time.
    fn poll_source(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let (polled, ended) = match &mut self.source {
            Some(BodySource::Hyper(inner)) => {
                let polled = Pin::new(&mut *inner).poll_frame(cx);
                let polled = polled.map(|frame| frame.map(|frame| frame.map_err(BoxError::from)));
                // If the response was sent earlier, hyper reports the end of the body only with the
                // next request, or an error if no request follows.
                let last = |frame: &Frame<Bytes>| frame.is_trailers() || inner.is_end_stream();
                let ended = match &polled {
                    Poll::Ready(Some(Ok(frame))) => last(frame),
                    Poll::Ready(None) => true,
                    _ => false,
                };
                (polled, ended)
            }
            Some(BodySource::Arriving(body)) => {
                let polled = body.poll_piece(cx);
                let frame =
                    |piece: io::Result<Bytes>| piece.map(Frame::data).map_err(BoxError::from);
                (polled.map(|piece| piece.map(frame)), body.left() == 0)
            }
            None => return Poll::Ready(None),
        };
        if ended {
            self.source = None;
        }
        if let Some(watch) = &self.watch {
            if polled.is_ready() {
                watch.proceed();
            } else {
                watch.wait(cx.waker());
                // This check follows the registration of the waker, so that no expiry is missed.
                if watch.is_expired() {
                    return Poll::Ready(Some(Err(BodyError::TimedOut)));
                }
            }
        }
        polled.map(|frame| frame.map(|frame| frame.map_err(BodyError::Read)))
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(read) = self.read.take() else { return Poll::Ready(None) };
        // If the length is known, it is checked before the first read, so that a client waiting for
        // 100 (Continue) does not send the body unnecessarily.
        if self.exceeds_limit(read.saturating_add(self.size_hint().lower())) {
            return Poll::Ready(Some(Err(BodyError::TooLarge)));
        }
        let polled = self.poll_source(cx);
        if polled.is_pending() {
            self.read = Some(read);
        }
        let frame = match ready!(polled) {
            Some(Ok(frame)) => frame,
            ended => return Poll::Ready(ended),
        };
        let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
        if let Some(watch) = &self.watch {
            watch.receive(bytes);
        }
        let read = read.saturating_add(bytes);
        if self.exceeds_limit(read) {
            return Poll::Ready(Some(Err(BodyError::TooLarge)));
        }
        self.read = Some(read);
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Some(BodySource::Hyper(inner)) => inner.is_end_stream(),
            Some(BodySource::Arriving(_)) => false,
            None => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Some(BodySource::Hyper(inner)) => inner.size_hint(),
            Some(BodySource::Arriving(body)) => SizeHint::with_exact(body.left()),
            None => SizeHint::with_exact(0),
        }
    }
}

impl Drop for Remaining {
    fn drop(&mut self) {
        // The service may have stopped waiting and dropped the body.
        if let Some(watch) = &self.watch {
            watch.proceed();
            if self.discards
                && let Some(BodySource::Hyper(inner)) = self.source.take()
                && !inner.is_end_stream()
            {
                watch.set_dropped(inner);
            }
        }
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.content {
            Content::Whole(rest) if rest.is_empty() => Poll::Ready(None),
            Content::Whole(rest) => Poll::Ready(Some(Ok(Frame::data(mem::take(rest))))),
            Content::Remaining(body) => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(rest) => rest.is_empty(),
            Content::Remaining(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(rest) => SizeHint::with_exact(rest.len() as u64),
            Content::Remaining(body) => body.size_hint(),
        }
    }
}
