//! Request bodies, bounded in size and time.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::body_watch::BodyWatch;
use crate::reply::BoxError;

/// The body of a request, bounded by
/// [`Limits::body_bytes`](crate::Limits::body_bytes) and [`Timeouts::body`](crate::Timeouts::body).
///
/// It implements [`http_body::Body`] and is `Send`, so it works wherever hyper's body type does,
/// including an axum `Router`.
///
/// ```
/// use corelane::{BodyError, Incoming};
/// use http_body_util::BodyExt;
///
/// async fn length(body: Incoming) -> Result<usize, BodyError> {
///     Ok(body.collect().await?.to_bytes().len())
/// }
/// ```
#[derive(Debug)]
pub struct Incoming {
    /// `None` where the request has no body, or its body has ended.
    inner: Option<Inner>,
    /// Remaining bytes of the limit. `None` after an error, which ends the body.
    left: Option<u64>,
    /// Set while more of the body is expected.
    watch: Option<Arc<BodyWatch>>,
}

#[derive(Debug)]
enum Inner {
    /// The body arrived with its request.
    Whole(Bytes),
    Hyper(hyper::body::Incoming),
}

/// Why the body of a request ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The body is larger than [`Limits::body_bytes`](crate::Limits::body_bytes). If the head of the
    /// reply is not ready yet, the request is answered `413`, whatever its handler returns.
    #[error("the request body is larger than allowed")]
    TooLarge,
    /// The service waited longer than [`Timeouts::body`](crate::Timeouts::body) for the next bytes. If
    /// the head of the reply is not ready yet, the request is answered `408`, whatever its handler
    /// returns; otherwise the reply is cut.
    #[error("timed out waiting for the request body")]
    TimedOut,
    /// The client disconnected or sent invalid HTTP.
    #[error("the request body could not be read: {0}")]
    Read(#[source] BoxError),
}

impl Incoming {
    pub(crate) fn new(
        inner: hyper::body::Incoming,
        limit: u64,
        watch: Option<Arc<BodyWatch>>,
    ) -> Self {
        Incoming { inner: Some(Inner::Hyper(inner)), left: Some(limit), watch }
    }

    /// A body that was read completely.
    pub(crate) fn whole(body: Bytes) -> Self {
        let left = Some(body.len() as u64);
        let inner = Some(body).filter(|body| !body.is_empty()).map(Inner::Whole);
        Incoming { inner, left, watch: None }
    }

    /// Polls the source. Fails if hyper's next bytes did not arrive in time.
    fn poll_inner(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let inner = match &mut self.inner {
            Some(Inner::Hyper(inner)) => inner,
            Some(Inner::Whole(body)) => {
                let body = mem::take(body);
                self.inner = None;
                return Poll::Ready(Some(Ok(Frame::data(body))));
            }
            None => return Poll::Ready(None),
        };
        let polled = Pin::new(&mut *inner).poll_frame(cx);
        if let Some(watch) = &self.watch {
            match polled {
                Poll::Ready(ref frame) => {
                    watch.proceed();
                    let ended = match frame {
                        Some(Ok(frame)) => frame.is_trailers() || inner.is_end_stream(),
                        Some(Err(_)) => false,
                        None => true,
                    };
                    if ended {
                        watch.set_seen();
                        // If the reply was sent first, hyper signals the end of the body only with
                        // the next request, or an error if there is none (hyper 1.12.0).
                        self.inner = None;
                    }
                }
                Poll::Pending => {
                    watch.wait(cx.waker());
                    // Checked after the waker is registered, so that no expiry is missed.
                    if watch.is_expired() {
                        return Poll::Ready(Some(Err(BodyError::TimedOut)));
                    }
                }
            }
        }
        polled.map(|frame| frame.map(|frame| frame.map_err(|e| BodyError::Read(e.into()))))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // The service may have stopped waiting and dropped the body.
        if let Some(watch) = &self.watch {
            watch.proceed();
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
        let Some(left) = self.left.take() else { return Poll::Ready(None) };
        let polled = self.poll_inner(cx);
        if polled.is_pending() {
            self.left = Some(left);
        }
        let frame = match ready!(polled) {
            Some(Ok(frame)) => frame,
            ended => return Poll::Ready(ended),
        };
        let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
        self.left = left.checked_sub(bytes);
        if self.left.is_some() {
            return Poll::Ready(Some(Ok(frame)));
        }
        // The size of a body without a watch was checked when it was read.
        if let Some(watch) = &self.watch {
            watch.set_too_large();
        }
        Poll::Ready(Some(Err(BodyError::TooLarge)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Some(Inner::Hyper(inner)) => inner.is_end_stream(),
            Some(Inner::Whole(_)) => false,
            None => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Some(Inner::Hyper(inner)) => inner.size_hint(),
            Some(Inner::Whole(body)) => SizeHint::with_exact(body.len() as u64),
            None => SizeHint::with_exact(0),
        }
    }
}
