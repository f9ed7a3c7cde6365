//! Reasons and results that label counters.

#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    Limit,
    HeaderTimeout,
    IdleTimeout,
    /// One or more consecutive accepts failed because the system was out of files or memory.
    AcceptError,
    /// The input was not HTTP, and the response was 400 (HTTP/2: GOAWAY).
    BadRequest,
    /// The header exceeded [`Limits::header_bytes`](crate::Limits::header_bytes) or
    /// [`Limits::headers`](crate::Limits::headers), and the response was 431.
    HeaderTooLarge,
    WriteTimeout,
    /// The client read the connection or one of its streams at less than
    /// [`Limits::send_rate`](crate::Limits::send_rate).
    SlowReader,
    /// The client read nothing from the connection or one of its streams while the server was above
    /// [`Limits::unsent_bytes`](crate::Limits::unsent_bytes).
    UnsentBytes,
    AddressLimit,
    /// An HTTP/2 client reset too many streams or sent too many CONTINUATION frames.
    Flood,
    /// The connection reached its [`Timeouts::connection_age`](crate::Timeouts::connection_age),
    /// which is not a failure.
    Age,
    /// The connection reached [`Limits::connection_requests`](crate::Limits::connection_requests),
    /// which is not a failure.
    Requests,
    /// It was ambiguous where an HTTP/1.1 message ended.
    AmbiguousFraming,
    /// A TLS handshake failed: the client disconnected, supports none of the server's versions or
    /// ciphers, rejected the server's certificate, or presented no acceptable certificate.
    Handshake,
    /// [`Timeouts::header`](crate::Timeouts::header) expired before the TLS handshake was complete.
    HandshakeTimeout,
    /// A plaintext request arrived on the TLS port, and the response was 400.
    PlainHttp,
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

#[derive(Clone, Copy, Debug)]
pub(crate) enum Handshake {
    Success,
    Failure,
    Timeout,
    ClientMissing,
    ClientUnknown,
    ClientExpired,
    ClientNotAllowed,
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

    /// Number of results that every server reports. Only a server that verifies client certificates
    /// reports the remaining results.
    pub(crate) const WITHOUT_CLIENTS: usize = 3;
}

/// The reason why a parked connection left the lane's parking lot.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Woken {
    /// The socket is readable: input arrived, or the client closed the connection.
    Bytes,
    /// [`Timeouts::idle`](crate::Timeouts::idle), [`Timeouts::header`](crate::Timeouts::header) or
    /// the connection's age expired, which closes the connection.
    Deadline,
    /// The server is draining, which closes the connection.
    Drain,
}

impl Woken {
    pub(crate) const ALL: [(Woken, &'static str); 3] =
        [(Woken::Bytes, "bytes"), (Woken::Deadline, "deadline"), (Woken::Drain, "drain")];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanOutcome {
    /// The lanes became more even.
    Helped,
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

/// The reason why the server responded instead of the service.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestRefusal {
    /// The lane's queue was full ([`Limits::queue`](crate::Limits::queue)), or the request would
    /// not have started before its deadline.
    QueueFull,
    /// The threads for [`blocking`](crate::blocking) calls were busy and their queue was full.
    /// Counts each rejected call, regardless of the handler's response.
    PoolFull,
    Timeout,
    /// The body exceeded [`Limits::body_bytes`](crate::Limits::body_bytes).
    BodyTooLarge,
    /// The target exceeded [`Limits::uri_bytes`](crate::Limits::uri_bytes).
    UriTooLong,
    Invalid,
    /// The next bytes of the body did not arrive within [`Timeouts::body`](crate::Timeouts::body).
    BodyTimeout,
    /// The body arrived at less than [`Limits::receive_rate`](crate::Limits::receive_rate).
    SlowBody,
    UnsentBytes,
    /// An HTTP/2 request had more fields than [`Limits::headers`](crate::Limits::headers).
    TooManyHeaders,
    /// An HTTP/2 request's header list exceeded
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

#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestPhase {
    Accept,
    Queue,
    Handler,
    /// From the response head until the socket has accepted the last byte, or 0 if it accepted an
    /// entire HTTP/1.1 response at once.
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
