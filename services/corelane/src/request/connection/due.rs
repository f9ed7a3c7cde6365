//! A connection's deadlines, evaluated by sweeps.

use std::time::{Duration, Instant};

use super::{ClientSide, Connection, Order, Reading};
use crate::base::phase::Phase;
use crate::metrics::{Handshake, Refusal};
use crate::request::finished::Cut;
use crate::request::lane_state::LaneState;
use crate::request::unsent::CROWDED;

/// Maximum time that a closing lane waits for the first request on a new connection.
const FRESH_GRACE: Duration = Duration::from_secs(1);

/// Maximum time that a client may take to close its side after the server has closed its own.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Maximum time, and number of sweeps, for which a request may wait after its client has closed its
/// sending side. Both limits apply, because the lane may have been blocked between sweeps, and
/// sweeps are frequent during a drain.
const DESERTED: Duration = Duration::from_millis(400);
const DESERTED_SWEEPS: u32 = 3;

#[derive(Clone, Copy, Debug)]
pub(super) enum Countdown {
    /// The connection has been in its current state since that time.
    Client { since: Instant },
    /// The socket cannot take the rest of the response. The client has read nothing since that time
    /// and may stay slow for another `left`.
    Reader { since: Instant, left: Duration },
    /// This request has been waiting since that time, and its client has closed its sending side.
    Deserted { since: Instant, request: u64, sweeps: u32 },
}

/// Maximum age of a connection: `age` minus up to a tenth, depending on a random `chance` from 0 to
/// 1. Connections that were opened at the same time therefore do not close at the same time.
pub(super) fn retire_after(age: Duration, chance: f64) -> Duration {
    age - age.mul_f64(0.1 * chance)
}

/// The wait on a connection that has no requests in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// Whether the connection is waiting for the rest of a head rather than for a request.
    pub(crate) in_header: bool,
    /// Whether the connection has not served a request yet.
    pub(crate) is_fresh: bool,
    pub(crate) waited: Duration,
}

impl Wait {
    pub(crate) fn due(self, lane: &LaneState) -> Option<Due> {
        let Wait { in_header, is_fresh, waited } = self;
        if in_header {
            return (waited > lane.timeouts.header).then_some(Due::HeaderTimeout);
        }
        // The first request of a new connection may be in transit, and closing at once would lose
        // it.
        if lane.phase.get() == Phase::Closing {
            return (!is_fresh || waited > FRESH_GRACE).then_some(Due::Drain);
        }
        if is_fresh {
            return (waited > lane.timeouts.header).then_some(Due::HeaderTimeout);
        }
        (waited > lane.timeouts.idle).then_some(Due::IdleTimeout)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HangsOn {
    Header,
    Reader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    HandshakeTimeout,
    HeaderTimeout,
    IdleTimeout,
    WriteTimeout,
    SlowReader,
    /// The client reads nothing while the process has too many unsent bytes.
    UnsentBytes,
    /// A request is waiting, but its client has disconnected.
    Deserted,
    Drain,
    Unheeded,
}

impl Connection {
    pub(super) fn since(&self) -> Instant {
        match self.countdown.get() {
            Countdown::Client { since }
            | Countdown::Reader { since, .. }
            | Countdown::Deserted { since, .. } => since,
        }
    }

    /// Returns what is due, if anything. Called only by the sweep.
    pub(crate) fn due(&self, lane: &LaneState, now: Instant) -> Option<Due> {
        let accepted = self.accepted_bytes.take();
        let looks = self.looks.get().saturating_add(1);
        self.looks.set(looks);
        if self.is_unflushed() {
            let due = self.due_of_reader(lane, accepted, now);
            // The order is reported only once, because the other protocol's task notices it when it
            // writes.
            let told = self.is_upgraded() && self.is_ordered();
            let applies = |due: &Due| !self.is_upgraded() || *due == Due::WriteTimeout;
            return due.filter(|due| applies(due) && !told);
        }
        if self.is_upgraded() {
            return None;
        }
        if let Some(unsent) = self.unsent.get() {
            unsent.sweep(false);
        }
        if self.client_side.get() == ClientSide::Ended && self.waits_for_service() {
            return self.is_missed(accepted > 0, now).then_some(Due::Deserted);
        }
        // A connection with upgraded streams is not idle.
        let anew = self.touched.take() || self.upgrades() > 0;
        if anew || !matches!(self.countdown.get(), Countdown::Client { .. }) {
            self.countdown.set(Countdown::Client { since: now });
        }
        let waited = now.saturating_duration_since(self.since());
        // hyper has finished the streams whose bytes are still unsent, so it cannot reset them
        // individually.
        let hoards = self.reading.get() == Reading::Idle
            && self.unsent.get().is_some_and(|unsent| unsent.is_any());
        if hoards && lane.is_crowded.get() && waited > CROWDED {
            return Some(Due::UnsentBytes);
        }
        let fresh = self.served.get() == 0;
        if self.is_leaving() {
            return (waited > LAST_WORD).then_some(Due::Unheeded);
        }
        // An idle HTTP/1.1 connection ends with its next response, because closing it now could
        // lose a request in transit.
        let old = self.retires.is_some_and(|at| at <= now);
        if old && !fresh && !self.is_ordered() {
            self.retire(Refusal::Age);
        }
        match self.reading.get() {
            Reading::Serving | Reading::Lent => None,
            // The connection has been ordered to finish and has no work left, but its client keeps
            // it open. An HTTP/2 client does this by ignoring the ping after GOAWAY, or by keeping
            // a stream's window closed.
            _ if self.is_ordered() => (waited > lane.timeouts.header).then_some(Due::Unheeded),
            Reading::Handshake => (waited > lane.timeouts.header).then_some(Due::HandshakeTimeout),
            // The connection may have been woken for input that the event loop has not reported
            // yet.
            _ if looks == 1 => None,
            // Ending the connection now would lose the requests that follow the body.
            Reading::Body if lane.phase.get() == Phase::Closing => {
                (waited > lane.timeouts.header).then_some(Due::Unheeded)
            }
            Reading::Body => (waited > lane.timeouts.idle).then_some(Due::IdleTimeout),
            reading => {
                let in_header = reading == Reading::Head;
                Wait { in_header, is_fresh: fresh, waited }.due(lane)
            }
        }
    }

    fn due_of_reader(&self, lane: &LaneState, accepted: u64, now: Instant) -> Option<Due> {
        let Countdown::Reader { mut since, mut left } = self.countdown.get() else {
            self.countdown.set(Countdown::Reader { since: now, left: lane.send_pace.grace() });
            return None;
        };
        if let Some(unsent) = self.unsent.get() {
            unsent.sweep(true);
        }
        if accepted > 0 {
            since = now;
        }
        left = lane.send_pace.spend(left, accepted, lane.passed.get());
        self.countdown.set(Countdown::Reader { since, left });
        let waited = now.saturating_duration_since(since);
        match () {
            () if waited > lane.timeouts.write => Some(Due::WriteTimeout),
            () if left.is_zero() => Some(Due::SlowReader),
            () if lane.is_crowded.get() && waited > CROWDED => Some(Due::UnsentBytes),
            () => None,
        }
    }

    /// Whether a request has waited too long since its client closed its sending side. A client
    /// that has only finished sending still gets a response that is already being sent or will be
    /// ready soon.
    fn is_missed(&self, progressed: bool, now: Instant) -> bool {
        if progressed {
            self.countdown.set(Countdown::Client { since: now });
            return false;
        }
        let number = self.served.get();
        let (since, sweeps) = match self.countdown.get() {
            Countdown::Deserted { since, request, sweeps } if request == number => {
                (since, sweeps + 1)
            }
            _ => (now, 1),
        };
        self.countdown.set(Countdown::Deserted { since, request: number, sweeps });
        let waited = now.saturating_duration_since(since);
        waited >= DESERTED && sweeps >= DESERTED_SWEEPS
    }

    pub(crate) fn hangs_on(&self) -> Option<HangsOn> {
        match self.reading.get() {
            _ if self.is_unflushed() => Some(HangsOn::Reader),
            Reading::Head => Some(HangsOn::Header),
            _ => None,
        }
    }
}

/// Counts what is due and returns how to end the connection. `is_silent` means that no request
/// awaits a response.
pub(crate) fn order_for(lane: &LaneState, due: Due, is_silent: bool) -> Order {
    let metrics = lane.metrics();
    match due {
        Due::HandshakeTimeout => {
            metrics.shake(Handshake::Timeout);
            metrics.refuse(Refusal::HandshakeTimeout);
            Order::Expire
        }
        Due::HeaderTimeout => {
            metrics.refuse(Refusal::HeaderTimeout);
            if is_silent { Order::Finish } else { Order::Expire }
        }
        Due::IdleTimeout => {
            metrics.refuse(Refusal::IdleTimeout);
            if is_silent { Order::Finish } else { Order::Expire }
        }
        Due::WriteTimeout => {
            metrics.refuse(Refusal::WriteTimeout);
            Order::Reset(Cut::WriteTimeout)
        }
        Due::SlowReader => {
            metrics.refuse(Refusal::SlowReader);
            Order::Reset(Cut::SlowReader)
        }
        Due::UnsentBytes => {
            metrics.refuse(Refusal::UnsentBytes);
            Order::Reset(Cut::UnsentBytes)
        }
        Due::Drain => Order::Finish,
        Due::Deserted | Due::Unheeded => Order::Expire,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::Random;

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
        // All connections end within the last six minutes of the hour, and no minute gets more than
        // twice its share of them.
        assert!(minutes.iter().all(|&connections| (1..=33).contains(&connections)), "{minutes:?}");
    }
}
