//! Limits, timeouts and drain settings, with safe defaults.

use std::time::Duration;

/// Default of [`Builder::park_after`](crate::Builder::park_after): long enough not to park a client
/// that pauses between two requests of a page.
pub(crate) const PARK_AFTER: Duration = Duration::from_secs(5);

/// Minimum of [`Builder::park_after`](crate::Builder::park_after). With a shorter time, the sweep
/// would park connections that are in use.
pub(crate) const LEAST_PARK_AFTER: Duration = Duration::from_millis(100);

/// Implements an enum's text forms: `WORDS`, `Display`, and `FromStr`, whose error lists every
/// accepted word.
macro_rules! words {
    ($type:ident: $($word:literal => $variant:ident),+) => {
        impl $type {
            /// All values, in documentation order.
            pub const WORDS: &[(&str, Self)] = &[$(($word, Self::$variant)),+];
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::base::settings::one_of(Self::WORDS)),
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $word,)+
                })
            }
        }
    };
}
pub(crate) use words;

pub(crate) fn one_of<T>(words: &[(&str, T)]) -> String {
    let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
    let (last, rest) = words.split_last().expect("there is one");
    format!("{} or {last}", rest.join(", "))
}

/// The header that trusted proxies use for their client's address, set by
/// [`Builder::forwarded_header`](crate::Builder::forwarded_header).
///
/// ```
/// assert_eq!("forwarded".parse(), Ok(corelane::ForwardedHeader::Forwarded));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`, to which most proxies append.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

words!(ForwardedHeader: "x-forwarded-for" => XForwardedFor, "forwarded" => Forwarded);

/// A server's role in distributed traces (W3C Trace Context).
///
/// ```
/// use corelane::{Server, Traces};
///
/// let builder = Server::builder().traces(Traces::Record { ratio: 0.01 });
/// assert!(builder.validate().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Traces {
    /// Ignore trace headers.
    #[default]
    Off,
    /// [`trace_context`](crate::trace_context) returns the request's context, and handlers pass it
    /// on unchanged.
    PassOn,
    /// If the caller has sampled the trace, the request becomes a span
    /// ([`Finished::span`](crate::Finished::span)) and the parent of its handler's calls. Unsampled
    /// contexts are passed on unchanged.
    Record {
        /// Share of requests without a trace that start a trace, from 0 to 1.
        ratio: f64,
    },
}

/// Client limits.
///
/// Other HTTP/2 limits are fixed. A connection may have 100 open streams. Request bodies that the
/// service has not read are buffered up to 128 KiB per stream and 256 KiB per connection. The
/// server closes a connection if its client resets more than 100 streams before the lane has
/// processed them (rapid reset) or makes errors that cause more than 100 resets.
///
/// ```
/// let limits = corelane::Limits { body_bytes: 64 * 1024, ..Default::default() };
/// assert_eq!(limits.connections, 10_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum open connections across all lanes. Further connections get `503` with `Retry-After:
    /// 1` and are closed. With TLS, or beyond 32 concurrent rejections per lane, they are closed
    /// without a response. Default: 10,000. Minimum: 1. The server raises its soft limit on open
    /// files to the hard limit, and does not start if this number exceeds it.
    pub connections: usize,
    /// Maximum open connections per client address, across all lanes. An IPv6 /64 counts as one
    /// address, because it typically belongs to one subscriber (RFC 6177). Further connections are
    /// rejected as for [`Limits::connections`]. The address is the socket's peer, which behind a
    /// proxy is the proxy's address. `None`, the default, sets no limit and costs nothing. Minimum:
    /// 1.
    pub connections_per_address: Option<usize>,
    /// Maximum requests per connection. The last response carries `Connection: close`. An HTTP/2
    /// client gets GOAWAY with its last request, and the server still responds to requests in
    /// transit. `None`, the default, sets no limit. Minimum: 1.
    pub connection_requests: Option<u64>,
    /// Maximum concurrent requests per lane. Further requests wait in the lane's queue. A request
    /// keeps its slot until its response head is ready. Default: 1,024. Minimum: 1.
    pub slots: usize,
    /// Maximum requests per lane that wait for a slot. Further requests, and requests whose
    /// expected wait exceeds [`Timeouts::request`], get `503` with `Retry-After`. Default: 1,024. 0
    /// disables waiting.
    pub queue: usize,
    /// Threads per lane for [`blocking`](crate::blocking) calls and for files that the service
    /// reads through tokio. Default: 8. Range: 1 to 512.
    pub blocking_threads: usize,
    /// Maximum [`blocking`](crate::blocking) calls per lane that wait for a thread. Further calls
    /// fail with [`BlockingError`](crate::BlockingError). Default: 256. 0 disables waiting. The
    /// value has no upper bound.
    pub blocking_queue: usize,
    /// Maximum number of header fields in a request. Requests with more fields get `431`. Over
    /// HTTP/2, the pieces of a cookie count as one field. Default: 100. Range: 1 to 1,000.
    pub headers: usize,
    /// Maximum bytes of a request header, from the request line to the empty line. Requests with a
    /// longer header get `431`. Default: 32 KiB. Range: 8 KiB (the minimum of hyper's read buffer)
    /// to 1 MiB. HTTP/2 adds 32 bytes per field (RFC 9113 section 6.5.2), and a much longer header
    /// closes the connection.
    pub header_bytes: usize,
    /// Maximum bytes of the target's path and query. Longer targets get `414`, unless the entire
    /// header is too large ([`Limits::header_bytes`]). Default: 8 KiB. Range: 1 B to 64 KiB. RFC
    /// 9110 section 4.1 recommends supporting at least 8,000 bytes.
    pub uri_bytes: usize,
    /// Maximum bytes of a request body. A larger `Content-Length` gets `413` without a call to the
    /// service. A larger chunked body fails with [`BodyError::TooLarge`](crate::BodyError), and the
    /// client gets `413` if the response head is not ready yet. [`RouteLimits`](crate::RouteLimits)
    /// overrides the limit per route. If any route raises it, the service is called first and
    /// applies the route's limit. Default: 10 MiB. 0 rejects every body.
    pub body_bytes: u64,
    /// Maximum response bytes, across all lanes, that the service has written and clients have not
    /// accepted yet. Above this limit, new requests get `503` with `Retry-After` without a call to
    /// the service, and a client that has read nothing for 5 s is reset. Responses that make
    /// progress continue. Shared parts above 256 KiB, such as a clone of a `Bytes` that the service
    /// keeps, are not counted. Default: 128 MiB. Minimum: 1 MiB.
    pub unsent_bytes: u64,
    /// Maximum unsent response bytes per HTTP/2 connection. While a connection is above this limit,
    /// its response bodies are not polled. Bodies with at most 16 KiB left are polled up to twice
    /// the limit. Each poll takes everything that the service provides, so a large part may exceed
    /// the limit. Default: 2 MiB. Range: 64 KiB to 1 GiB.
    pub unsent_connection_bytes: usize,
    /// Minimum client read rate in bytes per second, averaged over [`Timeouts::slow`]. Slower
    /// clients are reset and counted as `slow_reader`. The clock runs only while bytes are waiting
    /// for the client, not while the service is producing them. The waiting streams of an HTTP/2
    /// connection share the rate, and only a stream whose own window is closed is reset. Upgraded
    /// connections are exempt. Default: 240. Minimum: 1. `None` sets no minimum.
    pub send_rate: Option<u64>,
    /// Minimum send rate of a request body in bytes per second, averaged over [`Timeouts::slow`],
    /// until the response head is ready. Slower clients get `408`, as for [`Timeouts::body`], and
    /// are counted as `slow_body`. The clock runs only while the service is waiting for the body.
    /// Default: 240. Minimum: 1. `None` sets no minimum.
    pub receive_rate: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 10_000,
            connections_per_address: None,
            connection_requests: None,
            slots: 1024,
            queue: 1024,
            blocking_threads: 8,
            blocking_queue: 256,
            headers: 100,
            header_bytes: 32 * 1024,
            uri_bytes: 8 * 1024,
            body_bytes: 10 * 1024 * 1024,
            unsent_bytes: 128 * 1024 * 1024,
            unsent_connection_bytes: 2 * 1024 * 1024,
            send_rate: Some(240),
            receive_rate: Some(240),
        }
    }
}

/// Client timeouts.
///
/// One sweep per lane checks all deadlines, so they add no cost to the hot path. A connection may
/// outlive its deadline by up to a second, but never ends early. While a handler is blocking its
/// lane, the lane cannot read from clients, so this time counts only towards [`Timeouts::request`].
///
/// If a client closes its connection, or its side of an HTTP/1.1 connection, the server cancels its
/// requests: see [`Server`](crate::Server).
///
/// ```
/// use std::time::Duration;
/// let timeouts = corelane::Timeouts { idle: Duration::from_secs(120), ..Default::default() };
/// assert_eq!(timeouts.header, Duration::from_secs(10));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Maximum time from a request's first byte to the end of its header, and from the accept to
    /// the first byte, including any TLS handshake. When this time expires, an HTTP/1.1 client that
    /// has started a request gets `408`, and any other connection is closed. [`Timeouts::idle`]
    /// limits the wait for later headers on an HTTP/2 connection, and for the rest of an HTTP/1.1
    /// header that started before the previous response was ready. This timeout applies again once
    /// such an HTTP/1.1 connection is parked ([`Builder::park_after`](crate::Builder::park_after)).
    /// Default: 10 s. Range: 100 ms to 1 h.
    pub header: Duration,
    /// Maximum wait for the next bytes of a request body while the service is reading it, until the
    /// response head is ready. When this time expires, the body fails with
    /// [`BodyError::TimedOut`](crate::BodyError), the handler is dropped and the client gets `408`.
    /// An HTTP/1.1 connection is then closed. [`Timeouts::request`] limits the time for the whole
    /// body up to the same point. After that, a client may stay silent indefinitely, as in a
    /// bidirectional gRPC call. Default: 30 s. Range: 100 ms to 1 h.
    pub body: Duration,
    /// Maximum time from a request's header to its response head, including its time in the queue.
    /// When this time expires, the handler is dropped and the client gets `503`. This timeout does
    /// not limit a streamed body after the head or an upgraded connection.
    /// [`RouteLimits`](crate::RouteLimits) overrides it per route. Default: 60 s. Range: 100 ms to
    /// 24 h.
    pub request: Duration,
    /// Maximum time for which a client may read nothing while response bytes are pending. When this
    /// time expires, the connection is reset and the kernel drops its part of the response. If only
    /// an HTTP/2 stream's window stays closed, that stream is reset and other streams continue. Up
    /// to 64 KiB of the response to that stream stay in memory until the connection is idle or
    /// reaches its maximum age. Writing to an upgraded HTTP/1.1 connection fails with
    /// [`TimedOut`](std::io::ErrorKind::TimedOut). Default: 30 s. Range: 100 ms to 1 h.
    pub write: Duration,
    /// Period over which [`Limits::send_rate`] and [`Limits::receive_rate`] are averaged. A client
    /// may also pause for this long after reading or sending a lot. Default: 30 s. Range: 100 ms to
    /// 1 h.
    pub slow: Duration,
    /// Age at which a connection's next response carries `Connection: close` (HTTP/2: GOAWAY). The
    /// server shortens it by a random part of up to a tenth, so that clients do not reconnect
    /// simultaneously. An idle HTTP/1.1 connection stays open until [`Timeouts::idle`], because a
    /// request may be in transit. Default: 1 h. Minimum: 1 s. `None` sets no limit.
    pub connection_age: Option<Duration>,
    /// Maximum time between two requests on a connection. Must exceed the idle timeout of any proxy
    /// in front of the server, which could otherwise reuse a connection that is being closed.
    /// Default: 75 s. Range: 100 ms to 24 h.
    pub idle: Duration,
    /// Maximum time for which a handler may block its lane without waiting. The server does not
    /// interrupt a handler that takes longer, but the watchdog logs and counts a stall for its
    /// route. Default: 1 s. Range: 10 ms to 1 h.
    pub stall: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            header: Duration::from_secs(10),
            body: Duration::from_secs(30),
            request: Duration::from_secs(60),
            write: Duration::from_secs(30),
            slow: Duration::from_secs(30),
            connection_age: Some(Duration::from_secs(3600)),
            idle: Duration::from_secs(75),
            stall: Duration::from_secs(1),
        }
    }
}

impl Timeouts {
    /// Each timeout with its field name, or `None` if the timeout is not set.
    pub(crate) fn named(&self) -> [(&'static str, Option<Duration>); 8] {
        [
            ("header", Some(self.header)),
            ("body", Some(self.body)),
            ("request", Some(self.request)),
            ("write", Some(self.write)),
            ("slow", Some(self.slow)),
            ("connection_age", self.connection_age),
            ("idle", Some(self.idle)),
            ("stall", Some(self.stall)),
        ]
    }
}

/// How the server shuts down.
///
/// 1. *Settling*: readiness fails. For [`Drain::settle`], while load balancers react, the server
///    still accepts connections and adds `Connection: close` to every response (HTTP/2: GOAWAY).
/// 2. The listeners reject new TCP handshakes, and handshakes in progress have 100 ms to complete.
///    When new clients retry, the port is closed.
/// 3. *Closing*: the accept queues are emptied, listeners and idle connections are closed, and
///    requests in flight run to completion.
/// 4. The server returns when no work is left, or at the latest [`Drain::deadline`] after the drain
///    started. It also waits for running [`blocking`](crate::blocking) calls. Handlers and calls
///    that never return cannot be stopped. The server leaves them running and returns up to a
///    second after the deadline.
///
/// ```
/// use std::time::Duration;
/// let drain = corelane::Drain { settle: Duration::ZERO, ..Default::default() };
/// assert_eq!(drain.deadline, Duration::from_secs(30));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Time for which the server keeps accepting connections after readiness fails. Must exceed the
    /// time that every load balancer takes to react. Default: 5 s. Range: 0 to `deadline`.
    pub settle: Duration,
    /// Maximum duration of the drain. Requests and upgraded connections that are still in flight
    /// after that are cut and counted in [`Drained::cut`](crate::Drained::cut). Default: 30 s.
    /// Minimum: `settle`.
    pub deadline: Duration,
    /// Interval at which the server logs what each lane is waiting for, once the listeners are
    /// closed. Default: 5 s. Minimum: 100 ms.
    pub report: Duration,
}

impl Default for Drain {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Drain { settle: seconds(5), deadline: seconds(30), report: seconds(5) }
    }
}

pub(crate) fn check(limits: &Limits, timeouts: &Timeouts, drain: &Drain) -> Vec<String> {
    let second = Duration::from_secs(1);
    let tenth = Duration::from_millis(100);
    let rules = [
        (limits.connections >= 1, "limits.connections: at least 1"),
        (
            limits.connections_per_address != Some(0),
            "limits.connections_per_address: at least 1, or none",
        ),
        (limits.connection_requests != Some(0), "limits.connection_requests: at least 1, or none"),
        (limits.slots >= 1, "limits.slots: at least 1"),
        ((1..=512).contains(&limits.blocking_threads), "limits.blocking_threads: 1 to 512"),
        ((1..=1000).contains(&limits.headers), "limits.headers: 1 to 1000"),
        ((8192..=1 << 20).contains(&limits.header_bytes), "limits.header_bytes: 8KiB to 1MiB"),
        ((1..=65_536).contains(&limits.uri_bytes), "limits.uri_bytes: 1B to 64KiB"),
        (limits.unsent_bytes >= 1 << 20, "limits.unsent_bytes: at least 1MiB"),
        (
            (65_536..=1 << 30).contains(&limits.unsent_connection_bytes),
            "limits.unsent_connection_bytes: 64KiB to 1GiB",
        ),
        (limits.send_rate != Some(0), "limits.send_rate: at least 1, or none"),
        (limits.receive_rate != Some(0), "limits.receive_rate: at least 1, or none"),
        ((tenth..=3600 * second).contains(&timeouts.header), "timeouts.header: 100ms to 1h"),
        ((tenth..=3600 * second).contains(&timeouts.body), "timeouts.body: 100ms to 1h"),
        ((tenth..=86_400 * second).contains(&timeouts.request), "timeouts.request: 100ms to 24h"),
        ((tenth..=3600 * second).contains(&timeouts.write), "timeouts.write: 100ms to 1h"),
        ((tenth..=3600 * second).contains(&timeouts.slow), "timeouts.slow: 100ms to 1h"),
        (
            timeouts.connection_age.is_none_or(|age| age >= second),
            "timeouts.connection_age: at least 1s, or none",
        ),
        ((tenth..=86_400 * second).contains(&timeouts.idle), "timeouts.idle: 100ms to 24h"),
        ((second / 100..=3600 * second).contains(&timeouts.stall), "timeouts.stall: 10ms to 1h"),
        (drain.report >= tenth, "drain.report: at least 100ms"),
    ];
    let broken = rules.iter().filter(|(holds, _)| !holds).map(|(_, rule)| (*rule).to_owned());
    let (settle, deadline) = (drain.settle, drain.deadline);
    let order = (settle > deadline).then(|| {
        format!("drain.settle = \"{settle:?}\" must not exceed drain.deadline = \"{deadline:?}\"")
    });
    broken.chain(order).collect()
}
