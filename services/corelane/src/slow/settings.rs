//! Settings of slow lanes.

use std::time::Duration;

/// How slow lanes work; see [`Builder::slow_lanes`](crate::Builder::slow_lanes).
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
    /// Least share of a CPU that a slow lane gets while it has work and its lane is busy. Default 0.15;
    /// 0.01 to 0.5. It is doubled while a request has used half of its time limit.
    pub share: f64,
    /// Whether lanes that are not pinned have slow lanes, too. Default `false`: on CPUs that other
    /// processes use, they take the time that a lane leaves to its slow lane, whose requests may then wait
    /// until their deadline.
    pub unpinned: bool,
}

impl Default for SlowLanes {
    fn default() -> Self {
        SlowLanes { bound: Duration::from_micros(500), share: 0.15, unpinned: false }
    }
}

impl SlowLanes {
    /// Largest share of a slow lane, also where it is doubled.
    pub(crate) const MOST: f64 = 0.5;

    /// Work of a lane from which its requests go to idle lanes, if it is expected, or if one handler has
    /// taken it. Less is done before a thread of low priority has surely begun.
    pub(crate) fn backlog(&self) -> Duration {
        4 * self.bound
    }

    /// An error for each setting that is out of bounds.
    pub(crate) fn check(&self) -> Vec<String> {
        let bounds = Duration::from_micros(20)..=Duration::from_secs(1);
        let bound = (!bounds.contains(&self.bound)).then_some("slow_lanes.bound: 20us to 1s");
        let shares = 0.01..=SlowLanes::MOST;
        let share = (!shares.contains(&self.share)).then_some("slow_lanes.share: 0.01 to 0.5");
        bound.into_iter().chain(share).map(str::to_owned).collect()
    }
}

/// What is known of the requests of a route before they are served; see
/// [`Builder::cost`](crate::Builder::cost).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cost {
    /// The lane learns it.
    #[default]
    Auto,
    /// They are served on the lane, whatever they cost.
    Cheap,
    /// They are served on the slow lane, from the first.
    Expensive,
}
