//! The body of a reply that a slow lane made.

use std::any::Any;
use std::collections::VecDeque;
use std::mem;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::base::error::BoxError;

/// A part of a body, for the lane.
pub(crate) enum Part {
    Frame {
        frame: Frame<Bytes>,
        /// Nothing follows.
        is_last: bool,
    },
    End,
    Failed(BoxError),
    Panicked(Box<dyn Any + Send>),
}

/// A body that comes from a slow lane. It ends as the service's body did, panics included.
pub(crate) struct FarBody {
    /// What was ready with the head.
    pub(crate) ready: VecDeque<Part>,
    /// What follows.
    pub(crate) rest: Option<mpsc::Receiver<Part>>,
    /// Of what is not given yet.
    pub(crate) hint: SizeHint,
    pub(crate) has_ended: bool,
}

impl FarBody {
    fn give(&mut self, part: Part) -> Option<Result<Frame<Bytes>, BoxError>> {
        match part {
            Part::Frame { frame, is_last } => {
                self.has_ended = is_last;
                self.shorten(frame.data_ref().map_or(0, |data| data.len() as u64));
                Some(Ok(frame))
            }
            Part::End => {
                self.has_ended = true;
                None
            }
            Part::Failed(error) => {
                self.has_ended = true;
                Some(Err(error))
            }
            Part::Panicked(panic) => {
                self.has_ended = true;
                resume_unwind(panic)
            }
        }
    }

    fn shorten(&mut self, bytes: u64) {
        let (lower, upper) = (self.hint.lower(), self.hint.upper());
        self.hint = SizeHint::new();
        self.hint.set_lower(lower.saturating_sub(bytes));
        if let Some(upper) = upper {
            self.hint.set_upper(upper.saturating_sub(bytes));
        }
    }
}

impl Body for FarBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if let Some(part) = self.ready.pop_front() {
            return Poll::Ready(self.give(part));
        }
        let part = match &mut self.rest {
            Some(rest) => ready!(rest.poll_recv(cx)),
            None => None,
        };
        let cut = || Part::Failed("the slow lane of this reply has ended".into());
        Poll::Ready(self.give(part.unwrap_or_else(cut)))
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended
    }

    fn size_hint(&self) -> SizeHint {
        self.hint
    }
}

/// A body that the server has, and not the service of the lane. As small as [`Bytes`]: replies are moved
/// several times.
pub(crate) enum OwnBody {
    Memory(Bytes),
    Far(Box<FarBody>),
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
