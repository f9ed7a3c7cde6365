//! Bodies of responses produced by a slow lane.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::base::error::BoxError;

pub(crate) enum BodyPart {
    Frame { frame: Frame<Bytes>, is_last: bool },
    End,
    Failed(BoxError),
    Panicked(Box<dyn Any + Send>),
}

/// Ends in the same way as the service's body, even if that body panicked.
pub(crate) struct SentBody {
    pub(crate) ready: VecDeque<BodyPart>,
    pub(crate) rest: Option<mpsc::Receiver<BodyPart>>,
    /// Size of the parts that have not been passed on yet.
    pub(crate) hint: SizeHint,
    pub(crate) has_ended: bool,
}

impl SentBody {
    fn give(&mut self, part: BodyPart) -> Option<Result<Frame<Bytes>, BoxError>> {
        match part {
            BodyPart::Frame { frame, is_last } => {
                self.has_ended = is_last;
                self.shorten(frame.data_ref().map_or(0, |data| data.len() as u64));
                Some(Ok(frame))
            }
            BodyPart::End => {
                self.has_ended = true;
                None
            }
            BodyPart::Failed(error) => {
                self.has_ended = true;
                Some(Err(error))
            }
            BodyPart::Panicked(panic) => {
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

impl Body for SentBody {
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
        let cut = || BodyPart::Failed("the slow lane of this response has ended".into());
        Poll::Ready(self.give(part.unwrap_or_else(cut)))
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended
    }

    fn size_hint(&self) -> SizeHint {
        self.hint
    }
}
