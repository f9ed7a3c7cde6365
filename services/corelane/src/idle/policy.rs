//! When connections in use change lanes: what the mover decides by, without clocks and threads.
//!
//! ```text
//!  calm ──uneven for 50 ms──► observing ──30 ms──► shedding ──50 ms, or enough──► cooling down
//!    ▲                            │                    │ nothing moved               │
//!    │                            └─even again─► calm  ▼                             │
//!    └──────────────────────────────────────── backing off ◄──it did not help────────┤
//!    └──────────────────────────────────────────────────────────────────it helped────┘
//! ```
//!
//! A plan takes half of what two lanes differ by from the one to the other, so it cannot turn
//! their difference round. Which connections that are is not decided here: those of the lane
//! compare what they took while they were observed with [what is left](Shed::take) of the plan.
//! So a lane that is busy for one connection alone sheds nothing, and the plan is futile.

use std::time::{Duration, Instant};

use crate::metrics::{Moved, Plan};

/// How often lanes are looked at while one is busy, and otherwise.
const TICK: Duration = Duration::from_millis(10);
const SLOW_TICK: Duration = Duration::from_millis(100);

/// A lane that is less busy than this cannot be far from [`BUSY`] for long.
const STIRRING: f64 = 0.4;

/// The part of a new tick in the busy share of a lane.
const TICK_SHARE: f64 = 0.3;

/// Time over which the rounds of saturated lanes are smoothed: they are compared by how much they
/// have to do and not by how soon, and a lane that loses its CPU for a moment is to shed nothing.
const ROUND_WINDOW: f64 = 0.5;

/// Lanes are uneven when one is busier than this, and by [`DIFFERENCE`] busier than another.
pub(super) const BUSY: f64 = 0.6;
pub(super) const DIFFERENCE: f64 = 0.25;

/// Lanes that are all busier than this do not differ by how busy they are, however their
/// connections are spread: their rounds are compared.
const SATURATED: f64 = 0.9;

/// Rounds are uneven when one takes so many times as long as another, and by [`GRAIN`] longer.
const ROUNDS: f64 = 1.5;
const GRAIN: f64 = 100e-6;

/// How long lanes have to have been uneven.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long connections are observed, and how long they may then go: at least, and until each of
/// them should have had a request or two; at most [`LONGEST`], where handlers take that long.
const OBSERVATION: Duration = Duration::from_millis(30);
const SHEDDING: Duration = Duration::from_millis(50);
const REQUESTS: f64 = 1.5;
const LONGEST: Duration = Duration::from_secs(1);

/// Most connections that a plan moves.
const MOST: u32 = 4;

/// A plan's first connection may take so much more than its budget: of two that share a lane, one
/// takes about half, which may be a little more.
const SLACK: f64 = 1.25;

/// Time from a plan that moved something to the next; twice as long after each plan in a row that
/// came to nothing, this often.
const COOL_DOWN: Duration = Duration::from_millis(150);
const DOUBLINGS: u32 = 6;

/// What is seen of a lane at a tick.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Wall-clock time that it was busy since its start, with the handler that runs.
    pub(super) busy: Duration,
    /// Requests that ended since its start.
    pub(super) requests: u64,
    /// Connections with a request since the last sweep.
    pub(super) active: u64,
    /// What it has shed for the plan that concerns it.
    pub(super) shed: Spent,
    /// It was held up since it was told something, and has not heard it.
    pub(super) deaf: bool,
}

/// What a lane has shed for a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spent {
    pub(super) connections: u32,
    /// What they took, as [`Shed::left`] counts.
    pub(super) taken: f64,
}

/// What a lane is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// Time the polls of your connections.
    Observe,
    /// Let connections go.
    Shed(Shed),
    /// The plan is over.
    Finish,
}

/// What a plan moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shed {
    pub(crate) to: usize,
    pub(crate) why: Moved,
    /// Of [`Moved::Busy`] the share of the lane's time; of [`Moved::Saturated`] the seconds of its
    /// round.
    left: f64,
    connections: u32,
    begun: bool,
}

impl Shed {
    pub(super) fn new(to: usize, why: Moved, left: f64) -> Self {
        Shed { to, why, left, connections: MOST, begun: false }
    }

    /// Whether a connection that takes so much goes. One that takes nothing stays: it would change
    /// nothing.
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

/// Two lanes that differ.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Uneven {
    from: usize,
    to: usize,
    why: Moved,
    by: f64,
}

/// What the policy waits for.
#[derive(Clone, Copy, Debug)]
enum State {
    Calm,
    Suspecting { uneven: Uneven, until: Instant },
    Observing { uneven: Uneven, told: Instant, heard: Instant },
    Shedding { uneven: Uneven, told: Instant, heard: Instant },
    CoolingDown { uneven: Uneven, spent: Spent, until: Instant },
    BackingOff { until: Instant },
}

/// One lane, smoothed.
#[derive(Clone, Copy, Debug, Default)]
struct Gauge {
    last: Sample,
    /// Seconds of busy time that came with a tick and belong to those before: an event loop tells
    /// only after many polls.
    owed: f64,
    busy: f64,
    /// Busy time, and requests, per second, over [`ROUND_WINDOW`].
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
        // A handler that has ended counts again when the event loop tells of its turn.
        let busy = sample.busy.max(self.last.busy);
        self.last = Sample { busy, ..sample };
    }

    /// Seconds until a request of an active connection is served, if all of them ask at once.
    fn round(&self) -> f64 {
        if self.rate > 0.0 { self.last.active as f64 * self.work / self.rate } else { 0.0 }
    }
}

/// Decides which lane sheds what, tick by tick.
#[derive(Debug)]
pub(super) struct Policy {
    lanes: Vec<Gauge>,
    last: Option<Instant>,
    state: State,
    /// Plans in a row that came to nothing and are not forgiven.
    failures: u32,
    /// When lanes were last uneven, or a failure was forgiven.
    restless: Option<Instant>,
    /// What came of the last plan, until it is asked for.
    outcome: Option<Plan>,
}

impl Policy {
    pub(super) fn new(lanes: usize) -> Self {
        Policy {
            lanes: vec![Gauge::default(); lanes],
            last: None,
            state: State::Calm,
            failures: 0,
            restless: None,
            outcome: None,
        }
    }

    /// What came of a plan that has ended since this was last asked.
    pub(super) fn take_outcome(&mut self) -> Option<Plan> {
        self.outcome.take()
    }

    /// When to look next.
    pub(super) fn pause(&self) -> Duration {
        let waits = matches!(self.state, State::Calm | State::BackingOff { .. });
        let busy = self.lanes.iter().any(|lane| lane.busy > STIRRING);
        match self.state {
            State::BackingOff { .. } => SLOW_TICK,
            _ if waits && !busy => SLOW_TICK,
            _ => TICK,
        }
    }

    /// Looks at all lanes: which is told what.
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
            State::Calm => {
                let suspect = |uneven| State::Suspecting { uneven, until: now + PATIENCE };
                self.state = found.map_or(State::Calm, suspect);
                None
            }
            State::Suspecting { uneven, until } => match found.filter(|found| found.is(&uneven)) {
                None => self.calm_down(),
                Some(_) if now < until => None,
                Some(uneven) => {
                    self.state = State::Observing { uneven, told: now, heard: now };
                    Some((uneven.from, Step::Observe))
                }
            },
            State::Observing { uneven, told, .. } if self.is_deaf(&uneven, told, now) => {
                self.state = State::Observing { uneven, told, heard: now };
                None
            }
            State::Observing { uneven, heard, .. }
                if now < heard + self.patience(&uneven, OBSERVATION) =>
            {
                None
            }
            State::Observing { uneven, .. } => match found.filter(|found| found.is(&uneven)) {
                None => {
                    self.state = State::Calm;
                    Some((uneven.from, Step::Finish))
                }
                Some(uneven) => {
                    self.state = State::Shedding { uneven, told: now, heard: now };
                    let shed = Shed::new(uneven.to, uneven.why, uneven.by / 2.0);
                    Some((uneven.from, Step::Shed(shed)))
                }
            },
            State::Shedding { uneven, told, .. } if self.is_deaf(&uneven, told, now) => {
                self.state = State::Shedding { uneven, told, heard: now };
                None
            }
            State::Shedding { uneven, heard, .. } => {
                let spent = self.lanes[uneven.from].last.shed;
                let until = heard + self.patience(&uneven, SHEDDING);
                if now < until && spent.connections < MOST {
                    return None;
                }
                self.state = State::CoolingDown { uneven, spent, until: now + COOL_DOWN };
                if spent.connections == 0 {
                    self.end(Plan::Futile, now);
                }
                Some((uneven.from, Step::Finish))
            }
            State::CoolingDown { until, .. } if now < until => None,
            State::CoolingDown { uneven, spent, .. } => {
                // A plan that keeps what it promised takes twice that off the difference.
                let helped = uneven.by - self.difference(&uneven) >= spent.taken / 2.0;
                self.end(if helped { Plan::Helped } else { Plan::NoHelp }, now);
                None
            }
            State::BackingOff { until } if now < until => None,
            State::BackingOff { .. } => self.calm_down(),
        }
    }

    /// Whether a lane has not heard what it was told, and is waited for.
    fn is_deaf(&self, uneven: &Uneven, told: Instant, now: Instant) -> bool {
        self.lanes[uneven.from].last.deaf && now < told + LONGEST
    }

    /// How long the lane is given for what takes at least so long.
    fn patience(&self, uneven: &Uneven, least: Duration) -> Duration {
        let Gauge { last, rate, .. } = self.lanes[uneven.from];
        let longest = LONGEST.as_secs_f64();
        // No request has ended yet: they take long.
        let each = if last.active > 0 { REQUESTS * last.active as f64 / rate } else { 0.0 };
        least.max(Duration::from_secs_f64(each.min(longest)))
    }

    fn calm_down(&mut self) -> Option<(usize, Step)> {
        self.state = State::Calm;
        None
    }

    fn end(&mut self, outcome: Plan, now: Instant) {
        self.outcome = Some(outcome);
        if outcome == Plan::Helped {
            self.failures = 0;
            self.state = State::Calm;
        } else {
            self.failures = (self.failures + 1).min(DOUBLINGS);
            self.state = State::BackingOff { until: now + self.back_off() };
        }
    }

    fn back_off(&self) -> Duration {
        COOL_DOWN * 2u32.pow(self.failures)
    }

    /// Forgives a failure once lanes have been calm for as long as it made them wait.
    fn forgive(&mut self, now: Instant) {
        let since = *self.restless.get_or_insert(now);
        let calm = matches!(self.state, State::Calm);
        let forgiven = calm && self.failures > 0 && now >= since + self.back_off();
        if forgiven {
            self.failures -= 1;
        }
        if forgiven || !calm {
            self.restless = Some(now);
        }
    }

    /// The lanes that differ by too much, if any do.
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
        // Of several that are saturated, the one that has most to do.
        let from = lanes().filter(|&lane| self.lanes[lane].busy > SATURATED).max_by(round);
        let (from, to) = (from.or_else(|| lanes().max_by(busy))?, lanes().min_by(busy)?);
        let by = self.lanes[from].busy - self.lanes[to].busy;
        let uneven = Uneven { from, to, why: Moved::Busy, by };
        (self.lanes[from].busy > BUSY && by > DIFFERENCE).then_some(uneven)
    }

    /// By how much two lanes differ that a plan took for uneven.
    fn difference(&self, uneven: &Uneven) -> f64 {
        let of = |lane: &Gauge| match uneven.why {
            Moved::Saturated => lane.round(),
            _ => lane.busy,
        };
        of(&self.lanes[uneven.from]) - of(&self.lanes[uneven.to])
    }
}

impl Uneven {
    /// Whether it is the same lane, for the same reason.
    fn is(&self, other: &Uneven) -> bool {
        (self.from, self.why) == (other.from, other.why)
    }
}

#[cfg(test)]
mod tests;
