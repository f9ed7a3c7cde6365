//! The mover's policy for moving active connections, without clocks and threads.
//!
//! ```text
//!  calm ──uneven for 50 ms──► observing ──30 ms──► moving ────50 ms, or enough──► cooling down
//!    ▲                            │                    │ nothing moved               │
//!    │                            └─even again─► calm  ▼                             │
//!    └──────────────────────────────────────── backing off ◄──it did not help────────┤
//!    └──────────────────────────────────────────────────────────────────it helped────┘
//! ```
//!
//! A plan moves half of the difference between two lanes, so it cannot reverse the difference. The
//! lane itself picks the connections: it compares the load that each connection caused during the
//! observation with [what is left](Transfer::take) of the plan. If a single connection keeps the
//! lane busy, the lane does not hand over any connection and the plan fails.

use std::time::{Duration, Instant};

use crate::metrics::{Moved, PlanOutcome};

/// Check intervals while at least one lane is busy, and while no lane is busy.
const TICK: Duration = Duration::from_millis(10);
const SLOW_TICK: Duration = Duration::from_millis(100);

/// A lane below this busy share will not exceed [`BUSY`] soon.
const STIRRING: f64 = 0.4;

const TICK_SHARE: f64 = 0.3;

/// Time constant, in seconds, for smoothing the rounds of saturated lanes. The policy compares
/// amounts of work and ignores their timing, because a lane that briefly loses its CPU must keep
/// its connections.
const ROUND_WINDOW: f64 = 0.5;

/// Lanes are uneven if one lane's busy share exceeds this value and exceeds another lane's by
/// [`DIFFERENCE`].
pub(super) const BUSY: f64 = 0.6;
pub(super) const DIFFERENCE: f64 = 0.25;

/// A lane above this busy share is saturated. Saturated lanes all look equally busy, so the policy
/// compares their rounds.
const SATURATED: f64 = 0.9;

/// Rounds are uneven if one round is at least this many times as long as another and is also at
/// least [`GRAIN`] longer.
const ROUNDS: f64 = 1.5;
const GRAIN: f64 = 100e-6;

/// Minimum time that lanes must be uneven before a plan starts.
const PATIENCE: Duration = Duration::from_millis(50);

/// Time for observing connections, and again for moving them. It is extended up to [`LONGEST`] so
/// that most connections will have had one or two requests.
const OBSERVATION: Duration = Duration::from_millis(30);
const TRANSFER_TIME: Duration = Duration::from_millis(50);
const REQUESTS: f64 = 1.5;
const LONGEST: Duration = Duration::from_secs(1);

const MOST: u32 = 4;

/// Factor by which the first connection of a plan may exceed the budget. If a lane has two
/// connections, each causes about half the load or slightly more.
const SLACK: f64 = 1.25;

/// Pause after a plan that moved something. Each consecutive plan without effect doubles the pause,
/// up to this factor.
const COOL_DOWN: Duration = Duration::from_millis(150);
const DOUBLINGS: u32 = 6;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Total wall-clock time that the lane has been busy since it started, including the running
    /// handler.
    pub(super) busy: Duration,
    /// Requests finished since the lane started.
    pub(super) requests: u64,
    /// Number of connections that have had a request since the last sweep.
    pub(super) active: u64,
    /// Load that the lane has handed over under its current plan.
    pub(super) given: Spent,
    /// Whether a handler has been blocking the lane since the last step was sent, so that the lane
    /// has not received it.
    pub(super) unresponsive: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spent {
    pub(super) connections: u32,
    /// The load of these connections, in the same unit as [`Transfer::left`].
    pub(super) taken: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    Observe,
    Transfer(Transfer),
    Finish,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Transfer {
    pub(crate) to: usize,
    pub(crate) why: Moved,
    /// Remaining budget: a share of the lane's time for [`Moved::Busy`], or seconds of its round
    /// for [`Moved::Saturated`].
    left: f64,
    connections: u32,
    begun: bool,
}

impl Transfer {
    pub(super) fn new(to: usize, why: Moved, left: f64) -> Self {
        Transfer { to, why, left, connections: MOST, begun: false }
    }

    /// Whether a connection with this load leaves the lane. An idle connection stays, because
    /// moving it would have no effect.
    pub(crate) fn take(&mut self, takes: f64) -> bool {
        let slack = if self.begun { 1.0 } else { SLACK };
        let goes = self.connections > 0 && takes > 0.0 && takes <= self.left * slack;
        if goes {
            self.begun = true;
            self.left -= takes;
            self.connections -= 1;
        }
        goes
    }
}

/// Two lanes with different loads.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Uneven {
    from: usize,
    to: usize,
    why: Moved,
    by: f64,
}

#[derive(Clone, Copy, Debug)]
enum PlanStage {
    Calm,
    Suspecting { uneven: Uneven, until: Instant },
    Observing { uneven: Uneven, told: Instant, heard: Instant },
    Transferring { uneven: Uneven, told: Instant, heard: Instant },
    CoolingDown { uneven: Uneven, spent: Spent, until: Instant },
    BackingOff { until: Instant },
}

#[derive(Clone, Copy, Debug, Default)]
struct Gauge {
    last: Sample,
    /// Seconds of busy time that are reported in one tick but belong to earlier ticks, because an
    /// event loop updates its counter only after many polls.
    owed: f64,
    busy: f64,
    work: f64,
    rate: f64,
}

impl Gauge {
    fn tick(&mut self, sample: Sample, passed: f64) {
        let worked = sample.busy.saturating_sub(self.last.busy).as_secs_f64() + self.owed;
        self.owed = (worked - passed).clamp(0.0, 2.0 * TICK.as_secs_f64());
        let busy = (worked / passed).min(1.0);
        let weight = 1.0 - (1.0 - TICK_SHARE).powf(passed / TICK.as_secs_f64());
        self.busy += weight * (busy - self.busy);
        let weight = 1.0 - (-passed / ROUND_WINDOW).exp();
        self.work += weight * (busy - self.work);
        let ended = sample.requests.saturating_sub(self.last.requests) as f64;
        self.rate += weight * (ended / passed - self.rate);
        // When the event loop updates its counter, the counter includes the time of handlers that
        // have already returned.
        let busy = sample.busy.max(self.last.busy);
        self.last = Sample { busy, ..sample };
    }

    /// Seconds to serve one request on each active connection.
    fn round(&self) -> f64 {
        if self.rate > 0.0 { self.last.active as f64 * self.work / self.rate } else { 0.0 }
    }
}

#[derive(Debug)]
pub(super) struct Policy {
    lanes: Vec<Gauge>,
    last: Option<Instant>,
    state: PlanStage,
    /// Consecutive plans that had no effect and have not been forgiven yet.
    failures: u32,
    /// The time when lanes were last uneven or a failed plan was last forgiven.
    restless: Option<Instant>,
    /// Outcome of the last plan, until it is read.
    outcome: Option<PlanOutcome>,
}

impl Policy {
    pub(super) fn new(lanes: usize) -> Self {
        Policy {
            lanes: vec![Gauge::default(); lanes],
            last: None,
            state: PlanStage::Calm,
            failures: 0,
            restless: None,
            outcome: None,
        }
    }

    pub(super) fn take_outcome(&mut self) -> Option<PlanOutcome> {
        self.outcome.take()
    }

    pub(super) fn pause(&self) -> Duration {
        let waits = matches!(self.state, PlanStage::Calm | PlanStage::BackingOff { .. });
        let busy = self.lanes.iter().any(|lane| lane.busy > STIRRING);
        match self.state {
            PlanStage::BackingOff { .. } => SLOW_TICK,
            _ if waits && !busy => SLOW_TICK,
            _ => TICK,
        }
    }

    /// Evaluates all lanes. Returns a lane and the step to send to it.
    pub(super) fn tick(&mut self, now: Instant, samples: &[Sample]) -> Option<(usize, Step)> {
        let passed = self.last.replace(now).map(|last| now.saturating_duration_since(last));
        let Some(passed) = passed.filter(|passed| !passed.is_zero()) else {
            for (lane, &sample) in self.lanes.iter_mut().zip(samples) {
                lane.last = sample;
            }
            return None;
        };
        for (lane, &sample) in self.lanes.iter_mut().zip(samples) {
            lane.tick(sample, passed.as_secs_f64());
        }
        self.forgive(now);
        self.step(now)
    }

    fn step(&mut self, now: Instant) -> Option<(usize, Step)> {
        let found = self.uneven();
        match self.state {
            PlanStage::Calm => {
                let suspect = |uneven| PlanStage::Suspecting { uneven, until: now + PATIENCE };
                self.state = found.map_or(PlanStage::Calm, suspect);
                None
            }
            PlanStage::Suspecting { uneven, until } => {
                match found.filter(|found| found.is(&uneven)) {
                    None => self.calm_down(),
                    Some(_) if now < until => None,
                    Some(uneven) => {
                        self.state = PlanStage::Observing { uneven, told: now, heard: now };
                        Some((uneven.from, Step::Observe))
                    }
                }
            }
            PlanStage::Observing { uneven, told, .. }
                if self.is_unresponsive(&uneven, told, now) =>
            {
                self.state = PlanStage::Observing { uneven, told, heard: now };
                None
            }
            PlanStage::Observing { uneven, heard, .. }
                if now < heard + self.patience(&uneven, OBSERVATION) =>
            {
                None
            }
            PlanStage::Observing { uneven, .. } => match found.filter(|found| found.is(&uneven)) {
                None => {
                    self.state = PlanStage::Calm;
                    Some((uneven.from, Step::Finish))
                }
                Some(uneven) => {
                    self.state = PlanStage::Transferring { uneven, told: now, heard: now };
                    let transfer = Transfer::new(uneven.to, uneven.why, uneven.by / 2.0);
                    Some((uneven.from, Step::Transfer(transfer)))
                }
            },
            PlanStage::Transferring { uneven, told, .. }
                if self.is_unresponsive(&uneven, told, now) =>
            {
                self.state = PlanStage::Transferring { uneven, told, heard: now };
                None
            }
            PlanStage::Transferring { uneven, heard, .. } => {
                let spent = self.lanes[uneven.from].last.given;
                let until = heard + self.patience(&uneven, TRANSFER_TIME);
                if now < until && spent.connections < MOST {
                    return None;
                }
                self.state = PlanStage::CoolingDown { uneven, spent, until: now + COOL_DOWN };
                if spent.connections == 0 {
                    self.end(PlanOutcome::Futile, now);
                }
                Some((uneven.from, Step::Finish))
            }
            PlanStage::CoolingDown { until, .. } if now < until => None,
            PlanStage::CoolingDown { uneven, spent, .. } => {
                // An effective plan reduces the difference by twice the load that it moved.
                let helped = uneven.by - self.difference(&uneven) >= spent.taken / 2.0;
                self.end(if helped { PlanOutcome::Helped } else { PlanOutcome::NoHelp }, now);
                None
            }
            PlanStage::BackingOff { until } if now < until => None,
            PlanStage::BackingOff { .. } => self.calm_down(),
        }
    }

    /// Whether to wait for a lane that has not received its last step.
    fn is_unresponsive(&self, uneven: &Uneven, told: Instant, now: Instant) -> bool {
        self.lanes[uneven.from].last.unresponsive && now < told + LONGEST
    }

    /// Time that the lane gets for the step, at least `least`.
    fn patience(&self, uneven: &Uneven, least: Duration) -> Duration {
        let Gauge { last, rate, .. } = self.lanes[uneven.from];
        let longest = LONGEST.as_secs_f64();
        // No request has finished, so requests are slow.
        let each = if last.active > 0 { REQUESTS * last.active as f64 / rate } else { 0.0 };
        least.max(Duration::from_secs_f64(each.min(longest)))
    }

    fn calm_down(&mut self) -> Option<(usize, Step)> {
        self.state = PlanStage::Calm;
        None
    }

    fn end(&mut self, outcome: PlanOutcome, now: Instant) {
        self.outcome = Some(outcome);
        if outcome == PlanOutcome::Helped {
            self.failures = 0;
            self.state = PlanStage::Calm;
        } else {
            self.failures = (self.failures + 1).min(DOUBLINGS);
            self.state = PlanStage::BackingOff { until: now + self.back_off() };
        }
    }

    fn back_off(&self) -> Duration {
        COOL_DOWN * 2u32.pow(self.failures)
    }

    /// Forgives a failure once lanes have been even for as long as its pause.
    fn forgive(&mut self, now: Instant) {
        let since = *self.restless.get_or_insert(now);
        let calm = matches!(self.state, PlanStage::Calm);
        let forgiven = calm && self.failures > 0 && now >= since + self.back_off();
        if forgiven {
            self.failures -= 1;
        }
        if forgiven || !calm {
            self.restless = Some(now);
        }
    }

    fn uneven(&self) -> Option<Uneven> {
        let lanes = || 0..self.lanes.len();
        let round =
            |&a: &usize, &b: &usize| self.lanes[a].round().total_cmp(&self.lanes[b].round());
        let busy = |&a: &usize, &b: &usize| self.lanes[a].busy.total_cmp(&self.lanes[b].busy);
        if lanes().all(|lane| self.lanes[lane].busy > SATURATED) {
            let (from, to) = (lanes().max_by(round)?, lanes().min_by(round)?);
            let (most, least) = (self.lanes[from].round(), self.lanes[to].round());
            let uneven = Uneven { from, to, why: Moved::Saturated, by: most - least };
            return (most > ROUNDS * least && uneven.by > GRAIN).then_some(uneven);
        }
        // Among saturated lanes, pick the lane with the most work.
        let from = lanes().filter(|&lane| self.lanes[lane].busy > SATURATED).max_by(round);
        let (from, to) = (from.or_else(|| lanes().max_by(busy))?, lanes().min_by(busy)?);
        let by = self.lanes[from].busy - self.lanes[to].busy;
        let uneven = Uneven { from, to, why: Moved::Busy, by };
        (self.lanes[from].busy > BUSY && by > DIFFERENCE).then_some(uneven)
    }

    fn difference(&self, uneven: &Uneven) -> f64 {
        let of = |lane: &Gauge| match uneven.why {
            Moved::Saturated => lane.round(),
            _ => lane.busy,
        };
        of(&self.lanes[uneven.from]) - of(&self.lanes[uneven.to])
    }
}

impl Uneven {
    fn is(&self, other: &Uneven) -> bool {
        (self.from, self.why) == (other.from, other.why)
    }
}

#[cfg(test)]
mod tests;
