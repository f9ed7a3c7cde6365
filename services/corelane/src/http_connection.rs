//! Speaks HTTP on one connection.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER};
use http_body_util::BodyExt;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::spawn_local;

use crate::connection::{Order, Registration};
use crate::lane::LaneState;
use crate::metrics::Refusal;
use crate::problem::Problem;
use crate::reply::{Dispatch, HttpService};
use crate::settings::Limits;
use crate::stream::{Protocol, Stream};

/// Runs tasks on the lane that spawns them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneExecutor;

impl<F> Executor<F> for LaneExecutor
where
    F: Future + 'static,
    F::Output: 'static,
{
    fn execute(&self, future: F) {
        spawn_local(future);
    }
}

/// hyper's settings, made once for each lane.
#[derive(Clone, Debug)]
pub(crate) struct HttpSettings {
    http1: http1::Builder,
    http2: http2::Builder<LaneExecutor>,
}

impl HttpSettings {
    pub(crate) fn new(limits: &Limits) -> Self {
        let mut http1 = http1::Builder::new();
        // Deadlines are the lane's sweep, not a timer of hyper's for each request.
        http1
            .header_read_timeout(None)
            // A client may end its side after its request and still wants the reply.
            .half_close(true)
            .max_headers(limits.headers)
            .max_buf_size(limits.header_bytes);
        let mut http2 = http2::Builder::new(LaneExecutor);
        let header_bytes = u32::try_from(limits.header_bytes).unwrap_or(u32::MAX);
        http2.max_header_list_size(header_bytes).max_concurrent_streams(100);
        HttpSettings { http1, http2 }
    }
}

/// Serves a connection until it ends.
pub(crate) async fn serve<S: HttpService>(
    lane: Rc<LaneState>,
    registration: Registration,
    socket: TcpStream,
    settings: HttpSettings,
    service: S,
) {
    let connection = &registration.connection;
    let opened = tokio::select! {
        biased;
        opened = Stream::open(socket, Rc::clone(connection)) => opened,
        _ = poll_fn(|cx| connection.poll_order(cx)) => return,
    };
    let Ok(Some((protocol, stream))) = opened else { return };
    let dispatch = Dispatch { service, connection: Rc::clone(connection), lane: Rc::clone(&lane) };
    let ended = match protocol {
        Protocol::Http1 => {
            let http = settings.http1.serve_connection(TokioIo::new(stream), dispatch);
            drive_http1(http, &registration, &lane).await
        }
        Protocol::Http2 => {
            connection.set_multiplexed();
            let http = settings.http2.serve_connection(TokioIo::new(stream), dispatch);
            drive_http2(http, &registration).await
        }
    };
    if let Err(error) = ended {
        // hyper has answered 400 or 431 by itself, before there was a request.
        if error.is_parse() {
            lane.metrics().refuse(Refusal::BadRequest);
        }
        tracing::debug!(%error, "a connection ended early");
    }
}

type Http1<S> = http1::Connection<TokioIo<Stream>, Dispatch<S>>;
type Http2<S> = http2::Connection<TokioIo<Stream>, Dispatch<S>, LaneExecutor>;

async fn drive_http1<S: HttpService>(
    mut http: Http1<S>,
    registration: &Registration,
    lane: &LaneState,
) -> hyper::Result<()> {
    let connection = &registration.connection;
    let ended = poll_fn(|cx| {
        while let Poll::Ready(order) = connection.poll_order(cx) {
            match order {
                Order::Finish => Pin::new(&mut http).graceful_shutdown(),
                Order::Expire if connection.is_leaving() => connection.abandon(),
                Order::Expire => return Poll::Ready(None),
            }
        }
        Pin::new(&mut http).poll(cx).map(Some)
    });
    match ended.await {
        Some(result) => result,
        None if connection.in_header() => {
            // RFC 9110 section 15.5.9. Best effort: a client that does not read loses it.
            let mut io = http.into_parts().io.into_inner();
            let _ = tokio::time::timeout(FAREWELL, say(lane, &mut io, StatusCode::REQUEST_TIMEOUT))
                .await;
            Ok(())
        }
        None => Ok(()),
    }
}

async fn drive_http2<S: HttpService>(
    http: Http2<S>,
    registration: &Registration,
) -> hyper::Result<()> {
    let connection = &registration.connection;
    let mut http = std::pin::pin!(http);
    poll_fn(|cx| {
        while let Poll::Ready(order) = connection.poll_order(cx) {
            match order {
                Order::Finish => http.as_mut().graceful_shutdown(),
                Order::Expire => return Poll::Ready(Ok(())),
            }
        }
        http.as_mut().poll(cx)
    })
    .await
}

/// Longest time given to a client to take a last word.
const FAREWELL: Duration = Duration::from_secs(1);

/// Most connections a lane refuses with words at a time; further ones are just closed.
pub(crate) const REFUSING: usize = 32;

/// Answers a connection that is one too many with 503, and closes it.
pub(crate) fn refuse(lane: &Rc<LaneState>, mut socket: TcpStream) {
    if lane.refusing.get() >= REFUSING {
        return;
    }
    lane.refusing.set(lane.refusing.get() + 1);
    let lane = Rc::clone(lane);
    spawn_local(async move {
        let farewell = async {
            say(&lane, &mut socket, StatusCode::SERVICE_UNAVAILABLE).await?;
            // Closing with unread bytes resets the connection, and the reply may be lost with it
            // (RFC 9112 section 9.6): read until the client closes.
            let mut unread = [0; 1024];
            while socket.read(&mut unread).await? > 0 {}
            std::io::Result::Ok(())
        };
        // Either way the socket closes now.
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
        lane.refusing.set(lane.refusing.get() - 1);
    });
}

/// Writes a whole reply that ends the connection.
async fn say(
    lane: &LaneState,
    io: &mut (impl AsyncWriteExt + Unpin),
    status: StatusCode,
) -> std::io::Result<()> {
    let mut problem = Problem::from(status);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        problem = problem.header(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    let (mut head, body) = problem.into_response().into_parts();
    lane.sign(&mut head.headers);
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let length = body.len();
    let mut out = Vec::with_capacity(512);
    // RFC 9110 section 6.6.1: a 4xx carries the date.
    let date = httpdate::fmt_http_date(SystemTime::now());
    let start = format!(
        "HTTP/1.1 {status}\r\ndate: {date}\r\nconnection: close\r\ncontent-length: {length}\r\n"
    );
    out.extend_from_slice(start.as_bytes());
    for (name, value) in &head.headers {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&body);
    io.write_all(&out).await?;
    io.shutdown().await
}
