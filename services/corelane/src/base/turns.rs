//! How queues order requests, on lanes and on slow lanes.

/// Expected lane time in nanoseconds below which a request starts without waiting for its turn, on its
/// own lane. To wait or to move would cost more than that saves other requests.
pub const BRIEF: u64 = 100_000;

/// A request is queued as if it had arrived later, by this multiple of its expected time. Cheap
/// requests overtake expensive ones. Each starts eventually, because this delay does not grow while
/// it waits.
pub const HANDICAP: u64 = 8;
