//! Slow lane settings.

use std::time::Duration;

/// Slow lane settings. See [`Builder::slow_lanes`](crate::Builder::slow_lanes).
///
/// ```
/// use corelane::SlowLanes;
///
/// let slow_lanes = SlowLanes { share: 0.25, ..SlowLanes::default() };
/// let builder = corelane::Server::builder().slow_lanes(Some(slow_lanes));
/// assert!(builder.validate().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowLanes {
    /// How long a handler may hold its lane without waiting before its kind of request counts as
    /// slow. Time during which the handler waits is not counted. Default: 500 µs. Range: 20 µs to 1
    /// s.
    pub bound: Duration,
    /// Minimum share of a CPU for a slow lane that has work while its lane is busy. Default: 0.15.
    /// Range: 0.01 to 0.5. Doubled while a request has used half of its time limit.
    pub share: f64,
    /// Whether unpinned lanes also have slow lanes. Default: `false`, because other processes on
    /// the same CPUs would use the time that a lane leaves to its slow lane. The slow lane's
    /// requests could then wait until their deadline.
    pub unpinned: bool,
}

impl Default for SlowLanes {
    fn default() -> Self {
        SlowLanes { bound: Duration::from_micros(500), share: 0.15, unpinned: false }
    }
}

impl SlowLanes {
    /// Maximum share of a slow lane, even while doubled.
    pub(crate) const MOST: f64 = 0.5;

    /// Amount of work, either expected or already done by one handler, above which a lane's
    /// requests go to idle lanes. The lane itself finishes a smaller amount before a low-priority
    /// thread is certain to have started.
    pub(crate) fn backlog(&self) -> Duration {
        4 * self.bound
    }

    pub(crate) fn check(&self) -> Vec<String> {
        let bounds = Duration::from_micros(20)..=Duration::from_secs(1);
        let bound = (!bounds.contains(&self.bound)).then_some("slow_lanes.bound: 20us to 1s");
        let shares = 0.01..=SlowLanes::MOST;
        let share = (!shares.contains(&self.share)).then_some("slow_lanes.share: 0.01 to 0.5");
        bound.into_iter().chain(share).map(str::to_owned).collect()
    }
}

/// A route's cost, declared before any of its requests arrive. See
/// [`Builder::cost`](crate::Builder::cost).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cost {
    /// The lane learns the cost.
    #[default]
    Auto,
    /// The lane serves the requests regardless of their cost.
    Cheap,
    /// The slow lane serves all requests, starting with the first.
    Expensive,
}
