//! The reasons and results that label counters.

/// The reason why a connection was rejected or closed.
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
    /// The client's address had
    /// [`Limits::connections_per_address`](crate::Limits::connections_per_address) connections.
    AddressLimit,
    /// An HTTP/2 client reset too many streams, or sent too many CONTINUATION frames.
    Flood,
    /// The connection reached its [`Timeouts::connection_age`](crate::Timeouts::connection_age).
    /// Not a failure.
    Age,
    /// The connection reached [`Limits::connection_requests`](crate::Limits::connection_requests).
    /// Not a failure.
    Requests,
    /// The end of an HTTP/1.1 message was ambiguous.
    AmbiguousFraming,
    /// A TLS handshake failed: the client disconnected, supports none of the server's versions or
    /// ciphers, rejected the server's certificate, or has no certificate that the server accepts.
    Handshake,
    /// [`Timeouts::header`](crate::Timeouts::header) expired before the TLS handshake was complete.
    HandshakeTimeout,
    /// A request without TLS arrived on the TLS port: answered 400.
    PlainHttp,
    /// A connection had no valid PROXY protocol header.
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

/// The reason why a parked connection left the lane's parking lot.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Woken {
    /// The socket is readable: input arrived, or the client closed the connection.
    Bytes,
    /// [`Timeouts::idle`](crate::Timeouts::idle), [`Timeouts::header`](crate::Timeouts::header) or
    /// the connection's age expired. The connection is closed.
    Deadline,
    /// The server drains. The connection is closed.
    Drain,
}

impl Woken {
    pub(crate) const ALL: [(Woken, &'static str); 3] =
        [(Woken::Bytes, "bytes"), (Woken::Deadline, "deadline"), (Woken::Drain, "drain")];
}

/// The reason why a connection moved to another lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// The connection was parked and woke, and the other lane has less work.
    Wake,
    /// The connection's lane was busy, and the other lane was not.
    Busy,
    /// Both lanes were saturated, and the connection's lane had more active connections.
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
    /// Connections moved, but the lanes are as uneven as before.
    NoHelp,
}

impl PlanOutcome {
    pub(crate) const ALL: [(PlanOutcome, &'static str); 3] = [
        (PlanOutcome::Helped, "helped"),
        (PlanOutcome::Futile, "futile"),
        (PlanOutcome::NoHelp, "no_help"),
    ];
}

/// The reason why the server responded without the service, or instead of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestRefusal {
    /// The lane's queue was full ([`Limits::queue`](crate::Limits::queue)), or the request could
    /// not have started before its deadline.
    QueueFull,
    /// The threads for [`blocking`](crate::blocking) calls were busy and their queue was full.
    /// Counts each rejected call, whatever the handler's response.
    PoolFull,
    /// [`Timeouts::request`](crate::Timeouts::request) expired.
    Timeout,
    /// The body was larger than [`Limits::body_bytes`](crate::Limits::body_bytes).
    BodyTooLarge,
    /// The target was longer than [`Limits::uri_bytes`](crate::Limits::uri_bytes).
    UriTooLong,
    /// The request violated HTTP.
    Invalid,
    /// The next bytes of the request body did not arrive within
    /// [`Timeouts::body`](crate::Timeouts::body).
    BodyTimeout,
    /// The request body arrived at less than [`Limits::receive_rate`](crate::Limits::receive_rate).
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
    /// From the start of the handler to the head of the response.
    Handler,
    /// From the head of the response until the socket has accepted its last byte; 0 if it accepted
    /// a whole HTTP/1.1 response at once.
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
