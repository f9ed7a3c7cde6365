//! Streams of HTTP/2 connections. Each stream is a separate task and waits while its client accepts
//! no data, because one stream's window may stay closed while other streams of the connection
//! continue.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hyper::rt::Executor;
use pin_project_lite::pin_project;
use tokio::task::spawn_local;

use crate::request::exchanges::Exchange;
use crate::request::streams::{Streams, WaitingStream};

#[derive(Clone, Debug)]
pub(crate) struct StreamExecutor {
    pub(crate) streams: Rc<Streams>,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future + 'static,
{
    fn execute(&self, future: F) {
        let (streams, upgrade) = (Rc::clone(&self.streams), self.streams.take_upgrade());
        spawn_local(StreamTask { future, waiting: None, streams, upgrade });
    }
}

pin_project! {
    /// A hyper stream. Dropping it early resets the stream (RFC 9113 section 8.7, CANCEL), which
    /// frees hyper's part of the response.
    struct StreamTask<F> {
        #[pin]
        future: F,
        waiting: Option<WaitingStream>,
        streams: Rc<Streams>,
        // Set if this is the output of an upgraded stream. The stream is open for as long as the
        // task runs. The write timeout cannot apply to this output. hyper hides whether it is
        // waiting for the window or the service, and how much of a write the client has accepted.
        upgrade: Option<Box<Exchange>>,
    }
}

impl<F: Future> Future for StreamTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.waiting.as_ref().is_some_and(|waiting| waiting.sending.cut().is_some()) {
            return Poll::Ready(());
        }
        let polled = this.future.poll(cx);
        let noted = this.streams.take_noted();
        if polled.is_ready() {
            // The upgrade is still there if hyper reset the stream without upgrading it.
            this.streams.take_upgrade();
            return Poll::Ready(());
        }
        if let Some(sending) = noted {
            *this.waiting = Some(WaitingStream::new(this.streams, sending));
        }
        if let Some(waiting) = this.waiting {
            waiting.sending.set_waker(cx.waker());
        }
        Poll::Pending
    }
}
