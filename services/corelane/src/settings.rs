//! Limits, time-outs and drain settings, with safe defaults.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Default of [`Builder::park_after`](crate::Builder::park_after). Long enough that a client which
/// pauses between two requests of one page is not parked.
pub(crate) const PARK_AFTER: Duration = Duration::from_secs(5);

/// Below this the sweep would park connections that are in use.
pub(crate) const LEAST_PARK_AFTER: Duration = Duration::from_millis(100);

/// How a new connection finds its lane.
///
/// ```
/// assert_eq!("least-loaded".parse(), Ok(corelane::Placement::LeastLoaded));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// Every lane has a listening socket of its own on the same address (`SO_REUSEPORT`,
    /// socket(7)); the kernel chooses one by a hash of the connection's addresses and ports, or
    /// by the CPU that received it ([`Builder::steering`](crate::Builder::steering)).
    ///
    /// For many connections, or short ones, with requests that cost about the same: nothing is
    /// shared, and a connection costs nothing extra. Few long-lived connections spread badly (8
    /// over 4 lanes leave a lane without any in 38% of cases), and what waits behind a handler
    /// that holds its lane up cannot go to another.
    #[default]
    Hashed,
    /// All lanes watch one listening socket; whichever has time accepts, one connection in each
    /// turn of its event loop.
    ///
    /// For few lanes with short connections whose requests differ in cost: a lane that is held up
    /// takes nothing. Every lane that waits is woken for each connection, which costs more the
    /// more lanes there are, and long-lived connections gather where there was time when they
    /// came.
    Shared,
    /// A thread beside the lanes accepts and hands each connection to the lane with the least
    /// expected work, and among those whose work differs by less than a millisecond to the one
    /// with the fewest connections. What a busy lane has not begun, an idle lane takes over after
    /// a millisecond, or after 10 where that leaves the connections less even.
    ///
    /// For few long-lived connections, such as those of a proxy: 8 or 16 idle ones over 2 or 4
    /// lanes come out exactly even. Each connection passes through one thread more, so a server
    /// of very many short connections is better off without.
    LeastLoaded,
}

/// Which part a server takes in distributed traces (W3C Trace Context).
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
    /// None: it does not look at the headers.
    #[default]
    Off,
    /// [`trace_context`](crate::trace_context) gives handlers what came with the request, to pass
    /// it on as it is.
    PassOn,
    /// A request of a trace that its caller has sampled becomes a span of its own, which
    /// [`Finished::span`](crate::Finished::span) tells of, and the parent of what its handler
    /// calls. What the caller has not sampled is passed on as it is.
    Record {
        /// Share of the requests without a trace that begin one, from 0 to 1.
        ratio: f64,
    },
}

impl FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "hashed" => Ok(Placement::Hashed),
            "shared" => Ok(Placement::Shared),
            "least-loaded" => Ok(Placement::LeastLoaded),
            _ => Err("hashed, shared or least-loaded".to_owned()),
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Placement::Hashed => "hashed",
            Placement::Shared => "shared",
            Placement::LeastLoaded => "least-loaded",
        })
    }
}

/// Whether a connection may leave the lane that it came to. HTTP/1.1 only, and only between two
/// requests: neither the client nor the service notices.
///
/// ```
/// assert_eq!("parked-only".parse(), Ok(corelane::Moving::ParkedOnly));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Moving {
    /// Never.
    Off,
    /// A parked connection ([`Builder::park_after`](crate::Builder::park_after)) that wakes is
    /// served by the lane with the least expected work; where lanes differ by less than a
    /// millisecond it stays. Connections in use stay too.
    #[default]
    ParkedOnly,
    /// Connections in use move as well, between two requests, while one lane is clearly busier
    /// than another: enough of them to even the lanes out, a few at a time.
    ///
    /// For few long-lived connections with much to do, such as those of a proxy: a lane that got
    /// most of them is a bottleneck for as long as they last.
    Active,
}

impl FromStr for Moving {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Moving::Off),
            "parked-only" => Ok(Moving::ParkedOnly),
            "active" => Ok(Moving::Active),
            _ => Err("off, parked-only or active".to_owned()),
        }
    }
}

impl fmt::Display for Moving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Moving::Off => "off",
            Moving::ParkedOnly => "parked-only",
            Moving::Active => "active",
        })
    }
}

/// What a client may ask of the server before it is refused.
///
/// HTTP/2 has bounds of its own, which cannot be set. A connection may have 100 streams open at a
/// time. Of request bodies that the service has not taken yet, 128 KiB may come on a stream and
/// 256 KiB on a connection. Up to 64 KiB of a stream's reply wait for the client's window. A
/// connection ends when a client has opened and reset more than 100 streams before the lane looked
/// at them (rapid reset), or has made the server reset more than 100 by its errors.
///
/// ```
/// let limits = corelane::Limits { body_bytes: 64 * 1024, ..Default::default() };
/// assert_eq!(limits.connections, 10_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections over all lanes. One more is answered `503` with `Retry-After: 1` and
    /// closed; when a lane refuses more than 32 at a time, the rest are closed without a word, as
    /// all are with TLS. Default 10,000; at least 1. The server raises its soft limit of open files
    /// to the hard limit, and refuses to start if this number does not fit below it.
    pub connections: usize,
    /// Requests that a connection may carry; the last is answered with `Connection: close`. HTTP/2
    /// clients are sent GOAWAY when it comes, and what they sent before they knew is answered too.
    /// `None`, the default, sets no limit; else at least 1.
    pub connection_requests: Option<u64>,
    /// Requests that run on a lane at a time; more wait in its queue. A request holds its slot
    /// until the head of its reply is made. Default 1,024; at least 1.
    pub slots: usize,
    /// Requests that may wait for a slot of their lane; one more is answered `503` with
    /// `Retry-After`, as is one before which the lane is expected to be busy for longer than
    /// [`Timeouts::request`]. Default 1,024; 0 lets none wait.
    pub queue: usize,
    /// Threads of each lane for [`blocking`](crate::blocking) calls and files that the service
    /// reads through tokio. Default 8; 1 to 512.
    pub blocking_threads: usize,
    /// [`blocking`](crate::blocking) calls of a lane that may wait for a thread; one more ends in
    /// [`BlockingError`](crate::BlockingError). Default 256; 0 lets none wait, and there is no
    /// upper bound.
    pub blocking_queue: usize,
    /// Header fields of a request; more are answered `431`. Default 100; 1 to 1,000.
    pub headers: usize,
    /// Bytes of a request's header section; more are answered `431`. Default 32 KiB; 8 KiB (the
    /// least that hyper's read buffer takes) to 1 MiB. HTTP/2 counts 32 more for each field (RFC
    /// 9113 section 6.5.2), and a header that goes on for much longer ends its connection.
    pub header_bytes: usize,
    /// Bytes of the path and query of the request target; more are answered `414`, unless the
    /// whole header is too long then ([`Limits::header_bytes`]). Default 8 KiB; 1 to 64 KiB. RFC
    /// 9110 section 4.1 recommends to support at least 8,000.
    pub uri_bytes: usize,
    /// Bytes of a request body. A larger `Content-Length` is answered `413` before the service is
    /// called; a longer chunked body ends in [`BodyError::TooLarge`](crate::BodyError), and the
    /// request is answered `413` if the head of the reply was not made. Default 10 MiB; 0 refuses
    /// every body.
    pub body_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 10_000,
            connection_requests: None,
            slots: 1024,
            queue: 1024,
            blocking_threads: 8,
            blocking_queue: 256,
            headers: 100,
            header_bytes: 32 * 1024,
            uri_bytes: 8 * 1024,
            body_bytes: 10 * 1024 * 1024,
        }
    }
}

/// How long a client may take.
///
/// Deadlines are checked by one sweep per lane rather than by a timer per request, so they cost
/// the hot path nothing; a connection may outlive its deadline by up to a second, and never ends
/// before it. While a handler holds its lane no client can be heard: that time counts for none but
/// [`Timeouts::request`].
///
/// A client that closes its connection, or only its side of an HTTP/1.1 connection, is waited for
/// no longer: see [`Server`](crate::Server).
///
/// ```
/// use std::time::Duration;
/// let timeouts = corelane::Timeouts { idle: Duration::from_secs(120), ..Default::default() };
/// assert_eq!(timeouts.header, Duration::from_secs(10));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte of a request to the end of its header section, and from the accept to
    /// the first byte, a TLS handshake included. Afterwards an HTTP/1.1 client that began a request
    /// gets `408`, any other is closed. A later header on an HTTP/2 connection, and the rest of an
    /// HTTP/1.1 header that came before the last reply was made, are bounded by
    /// [`Timeouts::idle`]; the latter by this one once its connection is parked
    /// ([`Builder::park_after`](crate::Builder::park_after)). Default 10 s; 100 ms to 1 h.
    pub header: Duration,
    /// Longest wait for the next bytes of a request's body, while the service waits for them.
    /// Afterwards the body ends in [`BodyError::TimedOut`](crate::BodyError); if the head of the
    /// reply is not made yet, the handler is dropped and the request answered `408`. An HTTP/1.1
    /// connection is closed then. Until the head is made, all of the body is bounded by
    /// [`Timeouts::request`] too. Default 30 s; 100 ms to 1 h.
    pub body: Duration,
    /// From a request's header until the head of its reply is made, the wait in the queue
    /// included. Afterwards the handler is dropped and the client gets `503`. Default 60 s; 100 ms
    /// to 24 h.
    pub request: Duration,
    /// Longest time in which a client takes nothing of a reply that waits for it; then its
    /// connection is reset, and what the kernel holds of the reply is dropped. An HTTP/2 stream
    /// that takes less than 64 KiB in this time, while it has more to send, is reset alone, and the
    /// others go on; up to 64 KiB that such a stream still had to send at its end are kept until its
    /// connection is idle or old. Default 30 s; 100 ms to 1 h.
    pub write: Duration,
    /// Oldest that a connection gets before it is told to go with its next reply (HTTP/2: by
    /// GOAWAY), less up to a tenth, by chance, so that clients that came together do not leave
    /// together. One of HTTP/1.1 that is idle then stays so until [`Timeouts::idle`] is over: a
    /// request may be on its way. Default 1 h; at least 1 s; `None` for any age.
    pub connection_age: Option<Duration>,
    /// Between two requests of a connection. Must be longer than the idle time-out of the proxy
    /// in front, or a reused connection can close under a request. Default 75 s; 100 ms to 24 h.
    pub idle: Duration,
    /// Longest time in which a handler may hold its lane without waiting. Nothing interrupts a
    /// handler that takes longer, but the lane counts as stalled: the watchdog logs the route
    /// and counts it. Default 1 s; 10 ms to 1 h.
    pub stall: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            header: Duration::from_secs(10),
            body: Duration::from_secs(30),
            request: Duration::from_secs(60),
            write: Duration::from_secs(30),
            connection_age: Some(Duration::from_secs(3600)),
            idle: Duration::from_secs(75),
            stall: Duration::from_secs(1),
        }
    }
}

impl Timeouts {
    /// Each by the name of its field; `None` for one that is not set.
    pub(crate) fn named(&self) -> [(&'static str, Option<Duration>); 7] {
        [
            ("header", Some(self.header)),
            ("body", Some(self.body)),
            ("request", Some(self.request)),
            ("write", Some(self.write)),
            ("connection_age", self.connection_age),
            ("idle", Some(self.idle)),
            ("stall", Some(self.stall)),
        ]
    }
}

/// How the server ends.
///
/// 1. *Settling*: readiness fails; the server goes on accepting and answers every request with
///    `Connection: close` (HTTP/2: GOAWAY), for [`Drain::settle`], while load balancers notice.
/// 2. The listeners let no new handshake begin; those under way have 100 ms.
///    Clients that come now find the port closed when they try again.
/// 3. *Closing*: what waits in the accept queues is taken, the listeners and the idle connections
///    are closed, and what is in flight is finished.
/// 4. The server returns the moment nothing is left, at most [`Drain::deadline`] after the start.
///    [`blocking`](crate::blocking) calls that run are waited for too. Only where a handler holds
///    its lane, or a call does not return, is it up to a second later: these cannot be stopped, so
///    they are given that second and then left.
///
/// ```
/// use std::time::Duration;
/// let drain = corelane::Drain { settle: Duration::ZERO, ..Default::default() };
/// assert_eq!(drain.deadline, Duration::from_secs(30));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// How long the server keeps accepting after readiness failed. Longer than it takes every
    /// load balancer to notice. Default 5 s; 0 to `deadline`.
    pub settle: Duration,
    /// Longest time from the start of the drain to its end; what is then still in flight is cut,
    /// and counted in [`Drained::cut`](crate::Drained::cut). Default 30 s; at least `settle`.
    pub deadline: Duration,
    /// How often the log says what is still waited for, lane by lane, once the listeners are
    /// closed. Default 5 s; at least 100 ms.
    pub report: Duration,
}

impl Default for Drain {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Drain { settle: seconds(5), deadline: seconds(30), report: seconds(5) }
    }
}

/// The first setting that is out of bounds, in words that name it.
pub(crate) fn check(limits: &Limits, timeouts: &Timeouts, drain: &Drain) -> Result<(), String> {
    let second = Duration::from_secs(1);
    let tenth = Duration::from_millis(100);
    let rules = [
        (limits.connections >= 1, "limits.connections: at least 1"),
        (limits.connection_requests != Some(0), "limits.connection_requests: at least 1, or none"),
        (limits.slots >= 1, "limits.slots: at least 1"),
        ((1..=512).contains(&limits.blocking_threads), "limits.blocking_threads: 1 to 512"),
        ((1..=1000).contains(&limits.headers), "limits.headers: 1 to 1000"),
        ((8192..=1 << 20).contains(&limits.header_bytes), "limits.header_bytes: 8KiB to 1MiB"),
        ((1..=65_536).contains(&limits.uri_bytes), "limits.uri_bytes: 1B to 64KiB"),
        ((tenth..=3600 * second).contains(&timeouts.header), "timeouts.header: 100ms to 1h"),
        ((tenth..=3600 * second).contains(&timeouts.body), "timeouts.body: 100ms to 1h"),
        ((tenth..=86_400 * second).contains(&timeouts.request), "timeouts.request: 100ms to 24h"),
        ((tenth..=3600 * second).contains(&timeouts.write), "timeouts.write: 100ms to 1h"),
        (
            timeouts.connection_age.is_none_or(|age| age >= second),
            "timeouts.connection_age: at least 1s, or none",
        ),
        ((tenth..=86_400 * second).contains(&timeouts.idle), "timeouts.idle: 100ms to 24h"),
        ((second / 100..=3600 * second).contains(&timeouts.stall), "timeouts.stall: 10ms to 1h"),
        (drain.settle <= drain.deadline, "drain.settle: at most drain.deadline"),
        (drain.report >= tenth, "drain.report: at least 100ms"),
    ];
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err((*rule).to_owned()),
        None => Ok(()),
    }
}
