//! Settings of slow lanes.

use std::time::Duration;

/// The settings of slow lanes; see [`Builder::slow_lanes`](crate::Builder::slow_lanes).
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
    /// Longest time for which a handler may hold its lane without waiting before its kind of request
    /// counts as slow. Time in which the handler waits does not count. Default 500 µs; 20 µs to 1 s.
    pub bound: Duration,
    /// Minimum share of a CPU that a slow lane receives while it has work and its lane is busy.
    /// Default 0.15; 0.01 to 0.5. It is doubled while a request has used half of its time limit.
    pub share: f64,
    /// Whether lanes that are not pinned have slow lanes, too. Default `false`. On CPUs that are
    /// shared with other processes, those processes use the time that a lane leaves to its slow
    /// lane. Requests of the slow lane may then wait until their deadline.
    pub unpinned: bool,
}

impl Default for SlowLanes {
    fn default() -> Self {
        SlowLanes { bound: Duration::from_micros(500), share: 0.15, unpinned: false }
    }
}

impl SlowLanes {
    /// Maximum share of a slow lane, even while it is doubled.
    pub(crate) const MOST: f64 = 0.5;

    /// Work from which a lane's requests go to idle lanes, whether it is expected or one handler
    /// has already taken it. A lane finishes less work than this before a low-priority thread is
    /// certain to have begun.
    pub(crate) fn backlog(&self) -> Duration {
        4 * self.bound
    }

    /// Returns an error for each setting that is out of bounds.
    pub(crate) fn check(&self) -> Vec<String> {
        let bounds = Duration::from_micros(20)..=Duration::from_secs(1);
        let bound = (!bounds.contains(&self.bound)).then_some("slow_lanes.bound: 20us to 1s");
        let shares = 0.01..=SlowLanes::MOST;
        let share = (!shares.contains(&self.share)).then_some("slow_lanes.share: 0.01 to 0.5");
        bound.into_iter().chain(share).map(str::to_owned).collect()
    }
}

/// The cost of a route's requests, as known before they are served; see
/// [`Builder::cost`](crate::Builder::cost).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cost {
    /// The lane learns the cost.
    #[default]
    Auto,
    /// The requests are served on the lane, whatever they cost.
    Cheap,
    /// The requests are served on the slow lane, beginning with the first.
    Expensive,
}
