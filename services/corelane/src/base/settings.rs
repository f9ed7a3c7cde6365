//! Limits, timeouts and drain settings, with safe defaults.

use std::time::Duration;

/// Default of [`Builder::park_after`](crate::Builder::park_after). It is long enough that a client
/// that pauses between two requests of one page is not parked.
pub(crate) const PARK_AFTER: Duration = Duration::from_secs(5);

/// Minimum of that setting. With a shorter time the sweep would park connections that are in use.
pub(crate) const LEAST_PARK_AFTER: Duration = Duration::from_millis(100);

/// Gives an enum its text forms: a word list, `FromStr`, whose error names all words, and
/// `Display`.
macro_rules! words {
    ($type:ident: $($word:literal => $variant:ident),+) => {
        impl $type {
            /// The words, in the order of the documentation.
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

/// Joins words, as in "off, text or json".
pub(crate) fn one_of<T>(words: &[(&str, T)]) -> String {
    let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
    let (last, rest) = words.split_last().expect("there is one");
    format!("{} or {last}", rest.join(", "))
}

/// The header in which trusted proxies pass on the address of their client, set by
/// [`Builder::forwarded_header`](crate::Builder::forwarded_header).
///
/// ```
/// assert_eq!("forwarded".parse(), Ok(corelane::ForwardedHeader::Forwarded));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`, which most proxies append to.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

words!(ForwardedHeader: "x-forwarded-for" => XForwardedFor, "forwarded" => Forwarded);

/// How a server takes part in distributed traces (W3C Trace Context).
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
    /// The trace headers are ignored.
    #[default]
    Off,
    /// [`trace_context`](crate::trace_context) returns the request's context to handlers, which
    /// pass it on unchanged.
    PassOn,
    /// A request whose caller has sampled the trace becomes a span
    /// ([`Finished::span`](crate::Finished::span)) and the parent of its handler's calls. A context
    /// that the caller has not sampled is passed on unchanged.
    Record {
        /// Share of requests without a context that start a trace, from 0 to 1.
        ratio: f64,
    },
}

/// Limits for clients.
///
/// The other limits of HTTP/2 are fixed. A connection may have 100 open streams. Of request bodies
/// that the service has not read yet, 128 KiB are buffered per stream and 256 KiB per connection. A
/// connection is closed when a client has opened and reset more than 100 streams before the lane
/// processed them (rapid reset). It is also closed when the client has caused more than 100 resets
/// by its errors.
///
/// ```
/// let limits = corelane::Limits { body_bytes: 64 * 1024, ..Default::default() };
/// assert_eq!(limits.connections, 10_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections across all lanes. One more connection is answered with `503` and
    /// `Retry-After: 1`, and closed. When a lane rejects more than 32 at a time, the rest are
    /// closed without a response, as all are with TLS. Default 10,000; at least 1. The server
    /// raises its soft limit of open files to the hard limit, and does not start if this number
    /// exceeds it.
    pub connections: usize,
    /// Open connections of one client address, across all lanes. For IPv6 it counts a whole /64,
    /// because one subscriber has that (RFC 6177). One more connection is rejected as for
    /// [`Limits::connections`]. The address is the peer of the socket: behind a proxy that is the
    /// proxy. `None`, the default, sets no limit and costs nothing; otherwise at least 1.
    pub connections_per_address: Option<usize>,
    /// Requests per connection; the last response carries `Connection: close`. An HTTP/2 client
    /// receives GOAWAY with its last request, and requests already in transit are answered too.
    /// `None`, the default, sets no limit; otherwise at least 1.
    pub connection_requests: Option<u64>,
    /// Requests that run on a lane at a time; more requests wait in its queue. A request holds its
    /// slot until the head of its response is ready. Default 1,024; at least 1.
    pub slots: usize,
    /// Requests that may wait for a slot of their lane. One more request is answered with `503` and
    /// `Retry-After`, as is a request whose expected wait is longer than [`Timeouts::request`].
    /// Default 1,024; with 0 no request waits.
    pub queue: usize,
    /// Threads of each lane for [`blocking`](crate::blocking) calls and files that the service
    /// reads through tokio. Default 8; 1 to 512.
    pub blocking_threads: usize,
    /// [`blocking`](crate::blocking) calls of a lane that may wait for a thread. One more call
    /// fails with [`BlockingError`](crate::BlockingError). Default 256; with 0 no call waits. No
    /// upper bound.
    pub blocking_queue: usize,
    /// Header fields of a request; a request with more is answered with `431`. The pieces of a
    /// cookie over HTTP/2 count as one field. Default 100; 1 to 1,000.
    pub headers: usize,
    /// Bytes of a request's header, from its request line to its empty line; a longer header is
    /// answered with `431`. Default 32 KiB; 8 KiB (the minimum of hyper's read buffer) to 1 MiB.
    /// HTTP/2 adds 32 for each field (RFC 9113 section 6.5.2), and a header that is much longer
    /// closes its connection.
    pub header_bytes: usize,
    /// Bytes of the path and query of the request target; a longer target is answered with `414`,
    /// unless the whole header is too large ([`Limits::header_bytes`]). Default 8 KiB; 1 B to 64
    /// KiB. RFC 9110 section 4.1 recommends at least 8,000.
    pub uri_bytes: usize,
    /// Bytes of a request body. A larger `Content-Length` is answered with `413` before the service
    /// is called. A larger chunked body fails with [`BodyError::TooLarge`](crate::BodyError), and
    /// the request is answered with `413` if the head of the response is not ready yet.
    /// [`RouteLimits`](crate::RouteLimits) changes the limit for a route. If any route raises it,
    /// the service is called and applies the limit of its route. Default 10 MiB; 0 rejects every
    /// body.
    pub body_bytes: u64,
    /// Bytes of responses that the service has handed over and the clients have not accepted,
    /// across all lanes. Above this limit, each new request is answered with `503` and
    /// `Retry-After` before the service is called, and a client that has read nothing for 5 s is
    /// reset. Responses that make progress continue. A part of a response that is larger than 256
    /// KiB and shared, such as a clone of a `Bytes` that the service keeps, does not count. Default
    /// 128 MiB; at least 1 MiB.
    pub unsent_bytes: u64,
    /// Unsent response bytes of an HTTP/2 connection. Above this limit, the bodies of its responses
    /// are not polled, except bodies with at most 16 KiB left, which are polled up to twice the
    /// limit. A poll takes whatever the service provides at a time, so a large part may exceed the
    /// limit. Default 2 MiB; 64 KiB to 1 GiB.
    pub unsent_connection_bytes: usize,
    /// Bytes per second at which a client must read a response, on average over [`Timeouts::slow`].
    /// A slower client is reset and counted as `slow_reader`. Time counts only while bytes wait for
    /// the client, not while the service produces them. The waiting streams of an HTTP/2 connection
    /// share the rate, and only a stream whose own window is closed is reset. Upgraded connections
    /// have no rate. Default 240; `None` for no minimum, otherwise at least 1.
    pub send_rate: Option<u64>,
    /// Bytes per second at which a client must send the body of a request, on average over
    /// [`Timeouts::slow`], until the head of the response is ready. A slower client is answered
    /// with `408`, as for [`Timeouts::body`], and counted as `slow_body`. Time counts only while
    /// the service waits for the body. Default 240; `None` for no minimum, otherwise at least 1.
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

/// Timeouts for clients.
///
/// One sweep per lane checks deadlines instead of a timer per request, so they cost the hot path
/// nothing. A connection may outlive its deadline by up to a second, and never ends before it.
/// While a handler holds its lane, the lane cannot read from clients: that time counts only towards
/// [`Timeouts::request`].
///
/// Requests of a client that closes its connection, or only its side of an HTTP/1.1 connection, are
/// cancelled: see [`Server`](crate::Server).
///
/// ```
/// use std::time::Duration;
/// let timeouts = corelane::Timeouts { idle: Duration::from_secs(120), ..Default::default() };
/// assert_eq!(timeouts.header, Duration::from_secs(10));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Longest time from the first byte of a request to the end of its header section, and from
    /// accept to the first byte, including a TLS handshake. When it passes, an HTTP/1.1 client that
    /// started a request receives `408`; any other connection is closed. [`Timeouts::idle`] bounds
    /// later headers on an HTTP/2 connection, and the rest of an HTTP/1.1 header that started
    /// before the previous response was ready. Once such an HTTP/1.1 connection is parked
    /// ([`Builder::park_after`](crate::Builder::park_after)), this timeout applies. Default 10 s;
    /// 100 ms to 1 h.
    pub header: Duration,
    /// Longest wait for the next bytes of a request's body, while the service waits for them and
    /// until the head of the response is ready. When it passes, the body fails with
    /// [`BodyError::TimedOut`](crate::BodyError), the handler is dropped and the request is
    /// answered with `408`. An HTTP/1.1 connection is then closed. [`Timeouts::request`] bounds the
    /// whole body, also until the head is ready. After that, a client may be silent for any time,
    /// as in a bidirectional gRPC call. Default 30 s; 100 ms to 1 h.
    pub body: Duration,
    /// Longest time from a request's header to the head of its response, including the wait in the
    /// queue. When it passes, the handler is dropped and the client receives `503`. A body that is
    /// streamed after the head may take any time, and so may an upgraded connection.
    /// [`RouteLimits`](crate::RouteLimits) changes it for a route. Default 60 s; 100 ms to 24 h.
    pub request: Duration,
    /// Longest time in which a client reads nothing of a pending response. When it passes, the
    /// connection is reset, and the kernel drops its part of the response. An HTTP/2 stream whose
    /// window does not open in this time is reset alone; other streams continue. If the stream had
    /// handed over its whole response, up to 64 KiB of that are kept until its connection is idle
    /// or has reached its maximum age. A write to an upgraded HTTP/1.1 connection then fails with
    /// [`TimedOut`](std::io::ErrorKind::TimedOut). Default 30 s; 100 ms to 1 h.
    pub write: Duration,
    /// Time over which a client must reach [`Limits::send_rate`] and [`Limits::receive_rate`] on
    /// average. A client that has just read or sent much may also pause for this long. Default 30
    /// s; 100 ms to 1 h.
    pub slow: Duration,
    /// Age at which the next response of a connection carries `Connection: close` (HTTP/2: GOAWAY).
    /// A random part of up to a tenth is subtracted, so that clients do not reconnect together. An
    /// idle HTTP/1.1 connection stays open until [`Timeouts::idle`], because a request may be
    /// in transit. Default 1 h; at least 1 s; `None` for no limit.
    pub connection_age: Option<Duration>,
    /// Longest time between two requests of a connection. Must be longer than the idle timeout of the
    /// proxy in front; otherwise a connection can close while the proxy reuses it. Default 75 s;
    /// 100 ms to 24 h.
    pub idle: Duration,
    /// Longest time for which a handler may hold its lane without waiting. A handler that takes
    /// longer is not interrupted, but its lane counts as stalled: the watchdog logs and counts the
    /// route. Default 1 s; 10 ms to 1 h.
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
    /// Each timeout with the name of its field; `None` if it is not set.
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
/// 1. *Settling*: readiness fails. For [`Drain::settle`], while load balancers notice, the server
///    keeps accepting and adds `Connection: close` to every response (HTTP/2: GOAWAY).
/// 2. The listeners reject new TCP handshakes; handshakes that have begun have 100 ms to complete.
///    New clients find the port closed when they retry.
/// 3. *Closing*: the accept queues are emptied, listeners and idle connections are closed, and
///    requests in flight are finished.
/// 4. The server returns as soon as nothing is left, at the latest [`Drain::deadline`] after the
///    start. It also waits for running [`blocking`](crate::blocking) calls. If a handler holds its
///    lane, or a call does not return, the server returns up to a second later and leaves them
///    running: they cannot be stopped.
///
/// ```
/// use std::time::Duration;
/// let drain = corelane::Drain { settle: Duration::ZERO, ..Default::default() };
/// assert_eq!(drain.deadline, Duration::from_secs(30));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// How long the server keeps accepting after readiness fails. Must be longer than every load
    /// balancer takes to notice. Default 5 s; 0 to `deadline`.
    pub settle: Duration,
    /// Longest time from the start of the drain to its end. Requests and upgraded connections that
    /// are still in flight then are cut and counted in [`Drained::cut`](crate::Drained::cut).
    /// Default 30 s; at least `settle`.
    pub deadline: Duration,
    /// How often the log lists what each lane still waits for, once the listeners are closed. Default
    /// 5 s; at least 100 ms.
    pub report: Duration,
}

impl Default for Drain {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Drain { settle: seconds(5), deadline: seconds(30), report: seconds(5) }
    }
}

/// Returns an error for each setting that is out of bounds.
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
