//! What a sweep finds of a connection.

use std::time::{Duration, Instant};

use super::{Activity, Connection};
use crate::lane::LaneState;
use crate::metrics::Refusal;
use crate::shared::Phase;

/// How long a closing lane waits for the first request of a connection it has just accepted.
const FRESH_GRACE: Duration = Duration::from_secs(1);

/// How long a client may take to close after we did.
const LAST_WORD: Duration = Duration::from_secs(1);

/// How long, and for how many sweeps, a request may wait for a client that ended its side. The
/// lane may have been held between two sweeps, and sweeps are close to each other in a drain.
const DESERTED: Duration = Duration::from_millis(400);
const DESERTED_SWEEPS: u32 = 3;

/// A request that waits for a client that ended its side, as sweeps saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missed {
    /// By its number on the connection.
    request: u64,
    since: Instant,
    sweeps: u32,
}

/// How old a connection gets that may be `age` old: less by up to a tenth, by a `chance` from 0
/// to 1, so that those that came together do not go together.
pub(super) fn retire_after(age: Duration, chance: f64) -> Duration {
    age - age.mul_f64(0.1 * chance)
}

/// How a connection waits of which no request is in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// For the rest of a head, and not for a request.
    pub(crate) in_header: bool,
    /// No request was served on it yet.
    pub(crate) is_fresh: bool,
    pub(crate) waited: Duration,
}

impl Wait {
    /// What is due by now, if anything.
    pub(crate) fn due(self, lane: &LaneState) -> Option<Due> {
        let Wait { in_header, is_fresh, waited } = self;
        if in_header {
            return (waited > lane.timeouts.header).then_some(Due::HeaderTimeout);
        }
        // A connection that asked nothing yet may have its first request under way: closing it at
        // once would lose that request.
        if lane.phase.get() == Phase::Closing {
            return (!is_fresh || waited > FRESH_GRACE).then_some(Due::Drain);
        }
        if is_fresh {
            return (waited > lane.timeouts.header).then_some(Due::HeaderTimeout);
        }
        (waited > lane.timeouts.idle).then_some(Due::IdleTimeout)
    }
}

/// What of its client a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HangsOn {
    /// The rest of a header.
    Header,
    /// That it takes its reply.
    Reader,
}

/// Why a connection has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    HandshakeTimeout,
    HeaderTimeout,
    IdleTimeout,
    WriteTimeout,
    /// A request waits, and its client is not there any more.
    Deserted,
    Drain,
    Unheeded,
}

impl Connection {
    /// What is due at `now`, if anything. Only the sweep may call this.
    pub(crate) fn due(&self, lane: &LaneState, now: Instant) -> Option<Due> {
        let progressed = self.progressed.take();
        let looks = self.looks.get().saturating_add(1);
        self.looks.set(looks);
        if self.unflushed.get() {
            self.missed.set(None);
            if progressed | !self.stalled.replace(true) {
                self.since.set(now);
            }
            let waited = now.saturating_duration_since(self.since.get());
            return (waited > lane.timeouts.write).then_some(Due::WriteTimeout);
        }
        if self.is_missed(progressed, now) {
            return Some(Due::Deserted);
        }
        if self.stalled.take() | self.touched.take() {
            self.since.set(now);
        }
        let waited = now.saturating_duration_since(self.since.get());
        let fresh = self.served.get() == 0;
        if self.activity.get() == Activity::Leaving {
            return (waited > LAST_WORD).then_some(Due::Unheeded);
        }
        // An idle one of HTTP/1.1 waits for its next reply to be told so: closed before, it would
        // lose a request that is on its way.
        let old = self.retires.is_some_and(|at| at <= now);
        if old && !fresh && !self.told.get() {
            self.retire(Refusal::Age);
        }
        match self.activity.get() {
            Activity::Serving | Activity::Leaving => None,
            // It was told to finish and has nothing to do, but its client keeps it: an HTTP/2
            // client that never answers the ping of a GOAWAY, or keeps a stream's window shut.
            _ if self.told.get() => (waited > lane.timeouts.header).then_some(Due::Unheeded),
            Activity::Handshake => (waited > lane.timeouts.header).then_some(Due::HandshakeTimeout),
            // It may have woken for bytes that the event loop has not told it of.
            _ if looks == 1 => None,
            activity => {
                let in_header = activity == Activity::Header;
                Wait { in_header, is_fresh: fresh, waited }.due(lane)
            }
        }
    }

    /// Whether a request has waited for too long for a client that ended its side. A reply that is
    /// soon there, or flows, is not lost to a client that only said all it had to say.
    fn is_missed(&self, progressed: bool, now: Instant) -> bool {
        if progressed || !self.ended.get() || !self.waits_for_service() {
            self.missed.set(None);
            return false;
        }
        let request = self.served.get();
        let before = self.missed.get().filter(|missed| missed.request == request);
        let mut missed = before.unwrap_or(Missed { request, since: now, sweeps: 0 });
        missed.sweeps += 1;
        self.missed.set(Some(missed));
        let waited = now.saturating_duration_since(missed.since);
        waited >= DESERTED && missed.sweeps >= DESERTED_SWEEPS
    }

    /// What the connection waits for, if anything, in the words of the drain's report.
    pub(crate) fn hangs_on(&self) -> Option<HangsOn> {
        match self.activity.get() {
            _ if self.unflushed.get() => Some(HangsOn::Reader),
            Activity::Header => Some(HangsOn::Header),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn a_connection_retires_up_to_a_tenth_early() {
        let hour = Duration::from_secs(3600);
        let after = |chance| retire_after(hour, chance).as_secs_f64();
        assert_eq!([0.0, 0.5, 1.0].map(after), [3600.0, 3420.0, 3240.0]);
    }

    #[test]
    fn connections_that_came_together_do_not_go_together() {
        let (random, hour) = (Random::seeded(1), Duration::from_secs(3600));
        let mut minutes = [0; 6];
        for _ in 0..100 {
            let after = retire_after(hour, random.chance());
            assert!((hour * 9 / 10..=hour).contains(&after), "{after:?}");
            let early = hour - after;
            minutes[(early.as_secs() / 60).min(5) as usize] += 1;
        }
        // The six minutes before the hour share them: no minute has twice what is fair.
        assert!(minutes.iter().all(|&connections| (1..=33).contains(&connections)), "{minutes:?}");
    }
}
