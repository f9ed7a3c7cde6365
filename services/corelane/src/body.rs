//! The body of a request, bounded in size.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// The body of a request, as the service receives it: bounded by
/// [`Limits::body_bytes`](crate::Limits::body_bytes).
///
/// It is an [`http_body::Body`] and `Send`, so it works wherever hyper's own body type does, an
/// axum `Router` included.
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
    inner: hyper::body::Incoming,
    /// Bytes that may still come.
    left: u64,
}

/// Why the body of a request ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// It is longer than [`Limits::body_bytes`](crate::Limits::body_bytes). A service that returns
    /// this error (or one that it is the source of) answers `413`.
    #[error("the request body is larger than allowed")]
    TooLarge,
    /// The client broke off, or sent what is not HTTP.
    #[error("the request body could not be read: {0}")]
    Read(#[from] hyper::Error),
}

impl Incoming {
    pub(crate) fn new(inner: hyper::body::Incoming, limit: u64) -> Self {
        Incoming { inner, left: limit }
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        };
        let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => return Poll::Ready(Some(Err(BodyError::TooLarge))),
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
