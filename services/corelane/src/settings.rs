//! Limits, time-outs and drain settings, with safe defaults.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How a new connection finds its lane.
///
/// ```
/// assert_eq!("hashed".parse(), Ok(corelane::Placement::Hashed));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// Every lane has a listening socket of its own on the same address (`SO_REUSEPORT`,
    /// socket(7)); the kernel chooses one by a hash of the connection's addresses and ports.
    /// Costs nothing per connection and spreads many connections well. Few long-lived
    /// connections spread badly: 8 over 4 lanes leave a lane without any in 38% of cases.
    #[default]
    Hashed,
}

impl FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "hashed" => Ok(Placement::Hashed),
            _ => Err("hashed".to_owned()),
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Hashed => f.write_str("hashed"),
        }
    }
}

/// What a client may ask of the server before it is refused.
///
/// ```
/// let limits = corelane::Limits { body_bytes: 64 * 1024, ..Default::default() };
/// assert_eq!(limits.connections, 10_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections over all lanes. One more is answered `503` with `Retry-After: 1` and
    /// closed; when a lane refuses more than 32 at a time, the rest are closed without a word. Default 10,000; at least 1. The server raises its soft limit of open files to the
    /// hard limit, and refuses to start if this number does not fit below it.
    pub connections: usize,
    /// Header fields of a request; more are answered `431`. Default 100; 1 to 1,000. Applies to
    /// HTTP/1.1; HTTP/2 is bounded by [`Limits::header_bytes`] alone.
    pub headers: usize,
    /// Bytes of a request's header section; more are answered `431`. Default 32 KiB; 8 KiB (the
    /// least that hyper's read buffer takes) to 1 MiB.
    pub header_bytes: usize,
    /// Bytes of the path and query of the request target; more are answered `414`. Default 8 KiB; 1 to 64 KiB. RFC 9110
    /// section 4.1 recommends to support at least 8,000.
    pub uri_bytes: usize,
    /// Bytes of a request body. A larger `Content-Length` is answered `413` before the service is
    /// called; a longer chunked body ends in [`BodyError::TooLarge`](crate::BodyError). Default
    /// 10 MiB; 0 refuses every body.
    pub body_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 10_000,
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
/// the hot path nothing; a connection may outlive its deadline by up to a second. There is no
/// deadline yet for a request's body and for a handler; a client that takes nothing of its reply
/// counts as idle.
///
/// ```
/// use std::time::Duration;
/// let timeouts = corelane::Timeouts { idle: Duration::from_secs(120), ..Default::default() };
/// assert_eq!(timeouts.header, Duration::from_secs(10));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte of a request to the end of its header section, and from the accept to
    /// the first byte. Afterwards an HTTP/1.1 client that began a request gets `408`, any other
    /// is closed. A later header on an HTTP/2 connection is bounded by [`Timeouts::idle`].
    /// Default 10 s; 100 ms to 1 h.
    pub header: Duration,
    /// Between two requests of a connection. Must be longer than the idle time-out of the proxy
    /// in front, or a reused connection can close under a request. Default 75 s; 100 ms to 24 h.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts { header: Duration::from_secs(10), idle: Duration::from_secs(75) }
    }
}

/// How the server ends.
///
/// 1. *Settling*: readiness fails; the server goes on accepting and answers every request with
///    `Connection: close` (HTTP/2: GOAWAY), for [`Drain::settle`], while load balancers notice.
/// 2. *Closing*: each lane empties its accept queue, closes its listener and its idle
///    connections, and finishes what is in flight.
/// 3. The server returns the moment nothing is left, at most [`Drain::deadline`] after the start.
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
    /// Longest time from the start of the drain to its end; what is then still in flight is cut.
    /// Default 30 s; at least `settle`.
    pub deadline: Duration,
}

impl Default for Drain {
    fn default() -> Self {
        Drain { settle: Duration::from_secs(5), deadline: Duration::from_secs(30) }
    }
}

/// The first setting that is out of bounds, in words that name it.
pub(crate) fn check(limits: &Limits, timeouts: &Timeouts, drain: &Drain) -> Result<(), String> {
    let second = Duration::from_secs(1);
    let tenth = Duration::from_millis(100);
    let rules = [
        (limits.connections >= 1, "limits.connections: at least 1"),
        ((1..=1000).contains(&limits.headers), "limits.headers: 1 to 1000"),
        ((8192..=1 << 20).contains(&limits.header_bytes), "limits.header_bytes: 8KiB to 1MiB"),
        ((1..=65_536).contains(&limits.uri_bytes), "limits.uri_bytes: 1B to 64KiB"),
        ((tenth..=3600 * second).contains(&timeouts.header), "timeouts.header: 100ms to 1h"),
        ((tenth..=86_400 * second).contains(&timeouts.idle), "timeouts.idle: 100ms to 24h"),
        (drain.settle <= drain.deadline, "drain.settle: at most drain.deadline"),
    ];
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err((*rule).to_owned()),
        None => Ok(()),
    }
}
