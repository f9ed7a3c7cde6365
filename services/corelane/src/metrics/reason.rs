//! The reasons and results that counters are kept by, each with its label.

/// Why a connection was refused or given up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    /// [`Limits::connections`](crate::Limits::connections) were open.
    Limit,
    /// [`Timeouts::header`](crate::Timeouts::header) ran out.
    HeaderTimeout,
    /// [`Timeouts::idle`](crate::Timeouts::idle) ran out.
    IdleTimeout,
    /// An accept failed, once or again: the system was out of files or memory.
    AcceptError,
    /// What came was not HTTP: answered 400 (HTTP/2: GOAWAY).
    BadRequest,
    /// The header had more than [`Limits::header_bytes`](crate::Limits::header_bytes) or more
    /// than [`Limits::headers`](crate::Limits::headers) fields: answered 431.
    HeaderTooLarge,
    /// [`Timeouts::write`](crate::Timeouts::write) ran out for the connection, or for one stream
    /// of it.
    WriteTimeout,
    /// An HTTP/2 client opened and reset streams, or sent CONTINUATION frames, without measure.
    Flood,
    /// It reached its [`Timeouts::connection_age`](crate::Timeouts::connection_age); no failure.
    Age,
    /// It carried its [`Limits::connection_requests`](crate::Limits::connection_requests); no
    /// failure.
    Requests,
    /// Where a message of HTTP/1.1 ends could be read in two ways.
    AmbiguousFraming,
    /// A TLS handshake failed: the client left, speaks no version or cipher of ours, or refused
    /// our certificate.
    Handshake,
    /// [`Timeouts::header`](crate::Timeouts::header) ran out before the TLS handshake was done.
    HandshakeTimeout,
    /// A request without TLS came to the port that speaks TLS; it was answered 400.
    PlainHttp,
}

impl Refusal {
    pub(super) const ALL: [(Refusal, &'static str); 14] = [
        (Refusal::Limit, "limit"),
        (Refusal::HeaderTimeout, "header_timeout"),
        (Refusal::IdleTimeout, "idle_timeout"),
        (Refusal::AcceptError, "accept_error"),
        (Refusal::BadRequest, "bad_request"),
        (Refusal::HeaderTooLarge, "header_too_large"),
        (Refusal::WriteTimeout, "write_timeout"),
        (Refusal::Flood, "flood"),
        (Refusal::Age, "age"),
        (Refusal::Requests, "requests"),
        (Refusal::AmbiguousFraming, "ambiguous_framing"),
        (Refusal::Handshake, "handshake"),
        (Refusal::HandshakeTimeout, "handshake_timeout"),
        (Refusal::PlainHttp, "plain_http"),
    ];
}

/// How a TLS handshake ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handshake {
    Success,
    Failure,
    Timeout,
}

impl Handshake {
    pub(super) const ALL: [(Handshake, &'static str); 3] = [
        (Handshake::Success, "success"),
        (Handshake::Failure, "failure"),
        (Handshake::Timeout, "timeout"),
    ];
}

/// Why a parked connection left the lane's lot.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Woken {
    /// Its socket can be read: the client sent something, or closed.
    Bytes,
    /// [`Timeouts::idle`](crate::Timeouts::idle), [`Timeouts::header`](crate::Timeouts::header) or
    /// its age ran out; it ends.
    Deadline,
    /// The server drains; it ends.
    Drain,
}

impl Woken {
    pub(super) const ALL: [(Woken, &'static str); 3] =
        [(Woken::Bytes, "bytes"), (Woken::Deadline, "deadline"), (Woken::Drain, "drain")];
}

/// Why a connection departed for another lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It was parked and woke, and the other lane has less to do.
    Wake,
    /// Its lane was busy, the other was not.
    Busy,
    /// Both lanes were busy all the time, and its lane had more connections with requests.
    Saturated,
}

impl Moved {
    pub(super) const ALL: [(Moved, &'static str); 3] =
        [(Moved::Wake, "wake"), (Moved::Busy, "busy"), (Moved::Saturated, "saturated")];
}

/// What came of a plan to move connections between two lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The lanes are more even than before.
    Helped,
    /// No connection moved.
    Futile,
    /// Connections moved, and the lanes are as uneven as before.
    NoHelp,
}

impl Plan {
    pub(super) const ALL: [(Plan, &'static str); 3] =
        [(Plan::Helped, "helped"), (Plan::Futile, "futile"), (Plan::NoHelp, "no_help")];
}

/// Why a request was answered without its service, or in its stead.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestRefusal {
    /// The lane's queue was full ([`Limits::queue`](crate::Limits::queue)), or the request could
    /// not have started before its deadline.
    QueueFull,
    /// The threads for [`blocking`](crate::blocking) calls were busy and their queue full: counted
    /// for each call that was refused, whatever its handler made of it.
    PoolFull,
    /// [`Timeouts::request`](crate::Timeouts::request) ran out.
    Timeout,
    /// The body was larger than [`Limits::body_bytes`](crate::Limits::body_bytes).
    BodyTooLarge,
    /// The target was longer than [`Limits::uri_bytes`](crate::Limits::uri_bytes).
    UriTooLong,
    /// It was not what HTTP asks for.
    Invalid,
    /// The next bytes of its body did not come in [`Timeouts::body`](crate::Timeouts::body).
    BodyTimeout,
    /// An HTTP/2 request had more fields than [`Limits::headers`](crate::Limits::headers).
    TooManyHeaders,
    /// The header list of an HTTP/2 request was larger than
    /// [`Limits::header_bytes`](crate::Limits::header_bytes).
    HeaderTooLarge,
}

impl RequestRefusal {
    pub(super) const ALL: [(RequestRefusal, &'static str); 9] = [
        (RequestRefusal::QueueFull, "queue_full"),
        (RequestRefusal::PoolFull, "pool_full"),
        (RequestRefusal::Timeout, "request_timeout"),
        (RequestRefusal::BodyTooLarge, "body_too_large"),
        (RequestRefusal::UriTooLong, "uri_too_long"),
        (RequestRefusal::Invalid, "invalid"),
        (RequestRefusal::BodyTimeout, "body_timeout"),
        (RequestRefusal::TooManyHeaders, "too_many_headers"),
        (RequestRefusal::HeaderTooLarge, "header_too_large"),
    ];
}

/// The parts of a request's time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    /// From the accept of a connection to the header of its first request.
    Accept,
    /// From the header to the start of the handler.
    Queue,
    /// From the start of the handler to the head of the reply.
    Handler,
    /// From the head of the reply until the socket has taken its last byte; 0 where it took all
    /// of an HTTP/1.1 reply at once.
    Write,
}

impl Phase {
    pub(super) const ALL: [(Phase, &'static str); 4] = [
        (Phase::Accept, "accept"),
        (Phase::Queue, "queue"),
        (Phase::Handler, "handler"),
        (Phase::Write, "write"),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_counter() {
        fn check<T: Copy>(all: &[(T, &str)], index: fn(T) -> usize) {
            assert!(all.iter().enumerate().all(|(at, (reason, _))| index(*reason) == at));
        }
        check(&Refusal::ALL, |reason| reason as usize);
        check(&Handshake::ALL, |result| result as usize);
        check(&Woken::ALL, |reason| reason as usize);
        check(&Moved::ALL, |reason| reason as usize);
        check(&Plan::ALL, |outcome| outcome as usize);
        check(&RequestRefusal::ALL, |reason| reason as usize);
        check(&Phase::ALL, |phase| phase as usize);
    }
}
