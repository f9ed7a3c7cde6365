//! Hands an HTTP/1.1 connection's stream to the service after a response with status 101.
//!
//! hyper requires a [`Send`] stream, because the service may take it to any thread. Corelane's
//! stream belongs to its lane, so [`UpgradableStream`] returns an error on any other thread.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use fragile::Fragile;
use hyper::server::conn::http1::UpgradeableConnection;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::request::connection::{Connection, Order};
use crate::request::dispatch::Dispatch;
use crate::request::service::HttpService;
use crate::transport::connections::Strays;
use crate::transport::stream::Stream;

/// Any thread may own the stream, but only its lane's thread may use it.
#[derive(Debug)]
pub(crate) struct UpgradableStream {
    /// `None` once it is dropped.
    stream: Option<Fragile<Stream>>,
    strays: Arc<Strays>,
}

impl UpgradableStream {
    pub(crate) fn new(stream: Stream, strays: Arc<Strays>) -> Self {
        UpgradableStream { stream: Some(Fragile::new(stream)), strays }
    }

    pub(crate) fn into_stream(mut self) -> Stream {
        self.stream.take().expect("it is taken once").into_inner()
    }

    fn stream(&mut self) -> io::Result<Pin<&mut Stream>> {
        let stream = self.stream.as_mut().expect("it is not dropped");
        let elsewhere = "an upgraded connection can be used only on the thread of its lane";
        stream.try_get_mut().map(Pin::new).map_err(|_| io::Error::other(elsewhere))
    }
}

impl Drop for UpgradableStream {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take().filter(|stream| !stream.is_valid()) {
            self.strays.leave(Box::new(stream));
        }
    }
}

impl AsyncRead for UpgradableStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream()?.poll_read(cx, buf)
    }
}

impl AsyncWrite for UpgradableStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        let stream = self.stream.as_ref().and_then(|stream| stream.try_get().ok());
        stream.is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(cx)
    }
}

type UpgradingConnection<S> = UpgradeableConnection<TokioIo<UpgradableStream>, Dispatch<S>>;

/// Sends a 101 that is ready and hands over the stream. Boxed, because this is rare and would
/// enlarge every connection's task.
pub(super) fn upgrade<S: HttpService>(
    mut http: UpgradingConnection<S>,
    connection: Rc<Connection>,
) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        let result = poll_fn(|cx| poll(&mut http, &connection, cx)).await;
        // If hyper has not handed over the stream, it still owns the stream.
        if http.into_parts().is_none() {
            connection.end_http();
        }
        if let Err(error) = result {
            tracing::debug!(%error, "a connection ended with an error before its upgrade");
        }
    })
}

fn poll<S: HttpService>(
    http: &mut UpgradingConnection<S>,
    connection: &Connection,
    cx: &mut Context<'_>,
) -> Poll<hyper::Result<()>> {
    connection.begin_turn();
    while let Poll::Ready(order) = connection.poll_order(cx) {
        match order {
            // The upgrade ends HTTP.
            Order::Finish => {}
            Order::Expire => return Poll::Ready(Ok(())),
            Order::Reset(cut) => {
                connection.set_reset(cut);
                return Poll::Ready(Ok(()));
            }
        }
    }
    let polled = Pin::new(http).poll(cx);
    connection.end_turn();
    polled
}
