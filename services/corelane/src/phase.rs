//! Phases of a server.

/// The phase of a server. It only moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Phase {
    /// The server accepts and answers.
    Serving,
    /// A drain has started: readiness fails, and replies carry `Connection: close`.
    Settling,
    /// Listeners are closed; requests in flight are finished.
    Closing,
    /// All requests have ended or were cut.
    Stopped,
}

impl Phase {
    pub(crate) const ALL: [(Phase, &'static str); 4] = [
        (Phase::Serving, "serving"),
        (Phase::Settling, "settling"),
        (Phase::Closing, "closing"),
        (Phase::Stopped, "stopped"),
    ];
}
