//! The reasons and results that label counters.

/// Why a connection was rejected or closed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    /// There were [`Limits::connections`](crate::Limits::connections) open connections.
    Limit,
    /// [`Timeouts::header`](crate::Timeouts::header) expired.
    HeaderTimeout,
    /// [`Timeouts::idle`](crate::Timeouts::idle) expired.
    IdleTimeout,
    /// An accept failed one or more times in a row: the system was out of files or memory.
    AcceptError,
    /// The input was not HTTP: answered 400 (HTTP/2: GOAWAY).
    BadRequest,
    /// The header was larger than [`Limits::header_bytes`](crate::Limits::header_bytes) or had more
    /// than [`Limits::headers`](crate::Limits::headers) fields: answered 431.
    HeaderTooLarge,
    /// [`Timeouts::write`](crate::Timeouts::write) expired for the connection or one of its
    /// streams.
    WriteTimeout,
    /// The client of the connection, or of one of its streams, read at less than
    /// [`Limits::send_rate`](crate::Limits::send_rate).
    SlowReader,
    /// The client of the connection, or of one of its streams, read nothing while the server was
    /// above [`Limits::unsent_bytes`](crate::Limits::unsent_bytes).
    UnsentBytes,
    /// Its address had
    /// [`Limits::connections_per_address`](crate::Limits::connections_per_address) connections.
    AddressLimit,
    /// An HTTP/2 client reset too many streams, or sent too many CONTINUATION frames.
    Flood,
    /// It reached its [`Timeouts::connection_age`](crate::Timeouts::connection_age). Not a failure.
    Age,
    /// It reached [`Limits::connection_requests`](crate::Limits::connection_requests). Not a
    /// failure.
    Requests,
    /// The end of an HTTP/1.1 message was ambiguous.
    AmbiguousFraming,
    /// A TLS handshake failed: the client disconnected, supports none of our versions or ciphers,
    /// rejected our certificate, or has no certificate that we accept.
    Handshake,
    /// [`Timeouts::header`](crate::Timeouts::header) expired before the TLS handshake was complete.
    HandshakeTimeout,
    /// A request without TLS arrived on the TLS port: answered 400.
    PlainHttp,
    /// A connection had no valid header of the PROXY protocol.
    ProxyHeader,
}

impl Refusal {
    pub(crate) const ALL: [(Refusal, &'static str); 18] = [
        (Refusal::Limit, "limit"),
        (Refusal::HeaderTimeout, "header_timeout"),
        (Refusal::IdleTimeout, "idle_timeout"),
        (Refusal::AcceptError, "accept_error"),
        (Refusal::BadRequest, "bad_request"),
        (Refusal::HeaderTooLarge, "header_too_large"),
        (Refusal::WriteTimeout, "write_timeout"),
        (Refusal::SlowReader, "slow_reader"),
        (Refusal::UnsentBytes, "unsent_bytes"),
        (Refusal::AddressLimit, "address_limit"),
        (Refusal::Flood, "flood"),
        (Refusal::Age, "age"),
        (Refusal::Requests, "requests"),
        (Refusal::AmbiguousFraming, "ambiguous_framing"),
        (Refusal::Handshake, "handshake"),
        (Refusal::HandshakeTimeout, "handshake_timeout"),
        (Refusal::PlainHttp, "plain_http"),
        (Refusal::ProxyHeader, "proxy_header"),
    ];
}

/// The result of a TLS handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handshake {
    Success,
    Failure,
    Timeout,
    /// The client sent no certificate.
    ClientMissing,
    /// No current CA of [`TlsClients::ca`](crate::TlsClients::ca) issued the client's certificate.
    ClientUnknown,
    /// The client's certificate has expired.
    ClientExpired,
    /// The client's certificate names none of [`TlsClients::allow`](crate::TlsClients::allow).
    ClientNotAllowed,
    /// The client's certificate is unusable for another reason.
    ClientInvalid,
}

impl Handshake {
    pub(crate) const ALL: [(Handshake, &'static str); 8] = [
        (Handshake::Success, "success"),
        (Handshake::Failure, "failure"),
        (Handshake::Timeout, "timeout"),
        (Handshake::ClientMissing, "client_missing"),
        (Handshake::ClientUnknown, "client_unknown"),
        (Handshake::ClientExpired, "client_expired"),
        (Handshake::ClientNotAllowed, "client_not_allowed"),
        (Handshake::ClientInvalid, "client_invalid"),
    ];

    /// Only a server that verifies its clients has the results after these.
    pub(crate) const WITHOUT_CLIENTS: usize = 3;
}

/// Why a parked connection left the lane's parking lot.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Woken {
    /// Its socket is readable: input, or the client closed it.
    Bytes,
    /// [`Timeouts::idle`](crate::Timeouts::idle), [`Timeouts::header`](crate::Timeouts::header) or
    /// its age expired. It is closed.
    Deadline,
    /// The server drains. It is closed.
    Drain,
}

impl Woken {
    pub(crate) const ALL: [(Woken, &'static str); 3] =
        [(Woken::Bytes, "bytes"), (Woken::Deadline, "deadline"), (Woken::Drain, "drain")];
}

/// Why a connection moved to another lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It was parked and woke, and the other lane has less work.
    Wake,
    /// Its lane was busy, the other was not.
    Busy,
    /// Both lanes were saturated, and its lane had more active connections.
    Saturated,
}

impl Moved {
    pub(crate) const ALL: [(Moved, &'static str); 3] =
        [(Moved::Wake, "wake"), (Moved::Busy, "busy"), (Moved::Saturated, "saturated")];
}

/// The result of a plan to move connections between two lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanOutcome {
    /// The lanes became more even.
    Helped,
    /// No connection moved.
    Futile,
    /// Connections moved, but the lanes are as uneven as they were.
    NoHelp,
}

impl PlanOutcome {
    pub(crate) const ALL: [(PlanOutcome, &'static str); 3] = [
        (PlanOutcome::Helped, "helped"),
        (PlanOutcome::Futile, "futile"),
        (PlanOutcome::NoHelp, "no_help"),
    ];
}

/// Why a request was answered without its service, or instead of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestRefusal {
    /// The lane's queue was full ([`Limits::queue`](crate::Limits::queue)), or the request could
    /// not have started before its deadline.
    QueueFull,
    /// The threads for [`blocking`](crate::blocking) calls were busy and their queue was full.
    /// Counts each rejected call, whatever the handler replied.
    PoolFull,
    /// [`Timeouts::request`](crate::Timeouts::request) expired.
    Timeout,
    /// The body was larger than [`Limits::body_bytes`](crate::Limits::body_bytes).
    BodyTooLarge,
    /// The target was longer than [`Limits::uri_bytes`](crate::Limits::uri_bytes).
    UriTooLong,
    /// It violated HTTP.
    Invalid,
    /// The next bytes of its body did not arrive within [`Timeouts::body`](crate::Timeouts::body).
    BodyTimeout,
    /// Its body arrived at less than [`Limits::receive_rate`](crate::Limits::receive_rate).
    SlowBody,
    /// The server was above [`Limits::unsent_bytes`](crate::Limits::unsent_bytes).
    UnsentBytes,
    /// An HTTP/2 request had more fields than [`Limits::headers`](crate::Limits::headers).
    TooManyHeaders,
    /// The header list of an HTTP/2 request was larger than
    /// [`Limits::header_bytes`](crate::Limits::header_bytes).
    HeaderTooLarge,
}

impl RequestRefusal {
    pub(crate) const ALL: [(RequestRefusal, &'static str); 11] = [
        (RequestRefusal::QueueFull, "queue_full"),
        (RequestRefusal::PoolFull, "pool_full"),
        (RequestRefusal::Timeout, "request_timeout"),
        (RequestRefusal::BodyTooLarge, "body_too_large"),
        (RequestRefusal::UriTooLong, "uri_too_long"),
        (RequestRefusal::Invalid, "invalid"),
        (RequestRefusal::BodyTimeout, "body_timeout"),
        (RequestRefusal::SlowBody, "slow_body"),
        (RequestRefusal::UnsentBytes, "unsent_bytes"),
        (RequestRefusal::TooManyHeaders, "too_many_headers"),
        (RequestRefusal::HeaderTooLarge, "header_too_large"),
    ];
}

/// The phases of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestPhase {
    /// From the accept of a connection to the header of its first request.
    Accept,
    /// From the header to the start of the handler.
    Queue,
    /// From the start of the handler to the head of the reply.
    Handler,
    /// From the head of the reply until the socket has accepted its last byte; 0 if it accepted all
    /// of an HTTP/1.1 reply at once.
    Write,
}

impl RequestPhase {
    pub(crate) const ALL: [(RequestPhase, &'static str); 4] = [
        (RequestPhase::Accept, "accept"),
        (RequestPhase::Queue, "queue"),
        (RequestPhase::Handler, "handler"),
        (RequestPhase::Write, "write"),
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
        check(&PlanOutcome::ALL, |outcome| outcome as usize);
        check(&RequestRefusal::ALL, |reason| reason as usize);
        check(&RequestPhase::ALL, |phase| phase as usize);
    }
}
