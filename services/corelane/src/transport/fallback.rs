//! Uses hyper to serve connections that the plain path does not serve: HTTP/2, and HTTP/1.1
//! starting with the first request that is not plain.

#[cfg(feature = "http2")]
use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::StatusCode;
use hyper::server::conn::http1;
#[cfg(feature = "http2")]
use hyper::server::conn::http2;
use hyper_util::rt::TokioIo;
use tokio::task::spawn_local;

use crate::message::problem::Problem;
use crate::metrics::Refusal;
use crate::os::socket::Socket;
use crate::request::connection::{Connection, Order, ServedBy};
use crate::request::dispatch::Dispatch;
use crate::request::lane_state::LaneState;
use crate::request::service::HttpService;
use crate::transport::connections::Registration;
use crate::transport::final_response::{FINAL_RESPONSE_TIMEOUT, say};
use crate::transport::stream::Stream;
#[cfg(feature = "http2")]
use crate::transport::stream_task::StreamExecutor;
use crate::transport::upgrade::{UpgradableStream, upgrade};

/// Maximum concurrent streams per HTTP/2 connection. RFC 9113 section 6.5.2 recommends at least
/// 100.
const STREAMS: u32 = 100;

/// Bytes of request bodies that an HTTP/2 client may send before the service reads them, per stream
/// and per connection. HTTP/2's default (64 KiB) would slow down uploads, whereas with hyper's
/// default (1 MiB), 1,000 connections could hold 1 GiB.
const STREAM_WINDOW: u32 = 128 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;

/// Size of header lists that h2 accepts, as a multiple of
/// [`Limits::header_bytes`](crate::Limits::header_bytes). Corelane itself responds to lists up to
/// this size, because h2's own responses cannot be counted. Clients see it as the advisory
/// SETTINGS_MAX_HEADER_LIST_SIZE. A client can make the server hold [`STREAMS`] lists of this size
/// until the end of the connection's turn.
const HEADER_LISTS: u32 = 4;

/// Response bytes that h2 buffers beyond the client's window. With hyper's default of 400 KiB, a
/// client that does not read could hold 40 MB with 100 streams.
const SEND_BUFFER: usize = 64 * 1024;

/// Maximum streams that a client opens and resets before they are processed, and maximum streams
/// that the server resets because of client errors. The connection ends at the next reset after
/// that (rapid reset, CVE-2023-44487, and "MadeYouReset", CVE-2025-8671). The maximum is as high as
/// the number of concurrent streams, because a proxy may cancel all of them while a handler is
/// blocking the lane.
const RESET_STREAMS: usize = 100;
const ERROR_STREAMS: usize = 100;

const HYPER_HEADERS: usize = 100;

/// hyper's settings, created once per lane.
#[derive(Clone, Debug)]
pub(crate) struct HttpSettings {
    http1: http1::Builder,
    #[cfg(feature = "http2")]
    http2: http2::Builder<StreamExecutor>,
}

impl HttpSettings {
    pub(crate) fn new(lane: &LaneState) -> Self {
        let limits = &lane.limits;
        let mut http1 = http1::Builder::new();
        // The lane's sweep checks deadlines, which saves a hyper timer per request.
        http1
            .header_read_timeout(None)
            // Otherwise, hyper would read during a request, allocate a buffer for that, and drop a
            // complete request that is followed by a close. Corelane's stream checks for a close
            // only while a request is waiting.
            .half_close(true)
            .max_buf_size(limits.header_bytes);
        // With an explicit limit, hyper clears its field table for each request, which takes about
        // 1,000 instructions. The default limit costs nothing.
        if limits.headers != HYPER_HEADERS {
            http1.max_headers(limits.headers);
        }
        HttpSettings {
            http1,
            #[cfg(feature = "http2")]
            http2: http2_settings(lane),
        }
    }

    /// Serves an HTTP/1.1 connection until it ends. `prefix` was already read from the connection.
    pub(crate) fn serve_http1<S: HttpService>(
        &self,
        dispatch: Dispatch<S>,
        registration: Registration,
        socket: Socket,
        prefix: Bytes,
    ) {
        let connection = Rc::clone(&registration.connection);
        let strays = Arc::clone(&registration.connections.strays);
        connection.set_served_by(ServedBy::Hyper);
        let stream = UpgradableStream::new(Stream::new(socket, registration, prefix), strays);
        let http = self.http1.serve_connection(TokioIo::new(stream), dispatch);
        spawn_local(run_http1(http, connection));
    }

    /// Serves an HTTP/2 connection. `prefix` was already read from the connection.
    #[cfg(feature = "http2")]
    pub(crate) fn serve_http2<S: HttpService>(
        &self,
        dispatch: Dispatch<S>,
        registration: Registration,
        socket: Socket,
        prefix: Bytes,
    ) {
        let connection = Rc::clone(&registration.connection);
        connection.set_served_by(ServedBy::Http2);
        let stream = Stream::new(socket, registration, prefix);
        let http = self.http2.serve_connection(TokioIo::new(stream), dispatch);
        spawn_local(run_http2(http, connection));
    }
}

/// Returns hyper's settings for HTTP/2.
#[cfg(feature = "http2")]
fn http2_settings(lane: &LaneState) -> http2::Builder<StreamExecutor> {
    let mut http2 = http2::Builder::new(StreamExecutor { streams: Rc::clone(&lane.streams) });
    let header_bytes = u32::try_from(lane.limits.header_bytes).unwrap_or(u32::MAX);
    http2
        // h2 rejects longer lists with 431, and ends connections whose CONTINUATION frames far
        // exceed the limit.
        .max_header_list_size(header_bytes.saturating_mul(HEADER_LISTS))
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_pending_accept_reset_streams(RESET_STREAMS)
        .max_local_error_reset_streams(ERROR_STREAMS)
        // RFC 8441: WebSocket over HTTP/2.
        .enable_connect_protocol()
        // hyper's pings need a timer per connection. The sweep ends idle connections and clients
        // that do not read.
        .keep_alive_interval(None);
    http2
}

fn ended(connection: &Connection, result: hyper::Result<()>) {
    if let Err(error) = result {
        // Errors that the stream rejected are already counted.
        if let Some(reason) = fault(&error).filter(|_| !connection.is_cut_off()) {
            connection.lane().metrics().refuse(reason);
        }
        tracing::debug!(%error, "a connection ended with an error");
    }
}

/// The client error that made hyper end the connection, if any.
fn fault(error: &hyper::Error) -> Option<Refusal> {
    // Over HTTP/1.1, hyper has already responded with 400 or 431, before there was a request.
    if error.is_parse() {
        let large = error.is_parse_too_large();
        return Some(if large { Refusal::HeaderTooLarge } else { Refusal::BadRequest });
    }
    #[cfg(feature = "http2")]
    return http2_fault(error);
    #[cfg(not(feature = "http2"))]
    None
}

#[cfg(feature = "http2")]
fn http2_fault(error: &hyper::Error) -> Option<Refusal> {
    let error = error.source()?.downcast_ref::<h2::Error>()?;
    match error.reason()? {
        _ if !error.is_library() => None, // the client's own GOAWAY
        h2::Reason::ENHANCE_YOUR_CALM => Some(Refusal::Flood),
        _ => Some(Refusal::BadRequest),
    }
}

type Http1<S> = http1::Connection<TokioIo<UpgradableStream>, Dispatch<S>>;
#[cfg(feature = "http2")]
type Http2<S> = http2::Connection<TokioIo<Stream>, Dispatch<S>, StreamExecutor>;

enum End {
    Done(hyper::Result<()>),
    /// Drop the connection, after a 408 response if part of a header has arrived.
    Drop,
    /// Send a 101 and hand over the stream.
    Upgrade,
}

/// This is not an async function, because that would store the connection twice: as its argument
/// and as its own state.
fn run_http1<S: HttpService>(mut http: Http1<S>, connection: Rc<Connection>) -> impl Future {
    async move {
        match poll_fn(|cx| poll_http1(&mut http, &connection, cx)).await {
            End::Done(result) => ended(&connection, result),
            End::Drop if connection.in_header() => time_out(http, &connection).await,
            End::Drop => {}
            End::Upgrade => upgrade(http.with_upgrades(), connection).await,
        }
    }
}

fn poll_http1<S: HttpService>(
    http: &mut Http1<S>,
    connection: &Connection,
    cx: &mut Context<'_>,
) -> Poll<End> {
    connection.begin_turn();
    while let Poll::Ready(order) = connection.poll_order(cx) {
        match order {
            Order::Finish => Pin::new(&mut *http).graceful_shutdown(),
            Order::Expire if connection.is_leaving() => connection.abandon(),
            Order::Expire => return Poll::Ready(End::Drop),
            Order::Reset(cut) => {
                connection.set_reset(cut);
                return Poll::Ready(End::Drop);
            }
        }
    }
    if let Poll::Ready(result) = Pin::new(&mut *http).poll(cx) {
        let is_cut = result.as_ref().is_err_and(|error| !error.is_parse());
        if is_cut || connection.is_leaving() {
            return Poll::Ready(End::Done(result));
        }
        // hyper remembers a rejected upgrade. When the connection ends, hyper hands the stream to
        // that upgrade, including unwritten bytes (hyper 1.12.0, `Dispatched::Upgrade`).
        ended(connection, result);
        return Pin::new(http).poll(cx).map(End::Done);
    }
    if connection.is_upgrading() {
        return Poll::Ready(End::Upgrade);
    }
    if connection.is_deserted() {
        return Poll::Ready(End::Drop);
    }
    // A future that was never polled does not wake its task. While response bytes are waiting, the
    // socket wakes the task.
    if !connection.is_unflushed() && connection.take_unpolled() {
        cx.waker().wake_by_ref();
    }
    connection.end_turn();
    Poll::Pending
}

/// Responds to a header that timed out (RFC 9110 section 15.5.9). Best effort: a client that does
/// not read misses the response. Boxed, because this is rare and would enlarge every connection's
/// task.
fn time_out<S: HttpService>(
    http: Http1<S>,
    connection: &Connection,
) -> Pin<Box<dyn Future<Output = ()> + '_>> {
    let mut io = http.into_parts().io.into_inner().into_stream();
    Box::pin(async move {
        connection.expect_reply();
        let problem = Problem::from(StatusCode::REQUEST_TIMEOUT);
        let with_body = !io.asks_head();
        let words = say(connection.lane(), &mut io, problem, with_body);
        let _ = tokio::time::timeout(FINAL_RESPONSE_TIMEOUT, words).await;
    })
}

#[cfg(feature = "http2")]
fn run_http2<S: HttpService>(mut http: Http2<S>, connection: Rc<Connection>) -> impl Future {
    async move {
        ended(&connection, poll_fn(|cx| poll_http2(&mut http, &connection, cx)).await);
    }
}

#[cfg(feature = "http2")]
fn poll_http2<S: HttpService>(
    http: &mut Http2<S>,
    connection: &Connection,
    cx: &mut Context<'_>,
) -> Poll<hyper::Result<()>> {
    connection.begin_turn();
    while let Poll::Ready(order) = connection.poll_order(cx) {
        match order {
            Order::Finish => Pin::new(&mut *http).graceful_shutdown(),
            Order::Expire => return Poll::Ready(Ok(())),
            Order::Reset(cut) => {
                connection.set_reset(cut);
                return Poll::Ready(Ok(()));
            }
        }
    }
    Pin::new(http).poll(cx)
}
