//! Counts of stalls.

use crate::metrics::Count;
use crate::metrics::kind::KindIndex;

/// The route of a stall without a handler, such as in a body, a destructor, or with a preempted
/// CPU.
pub(crate) const NO_ROUTE: &str = "none";

/// The stalls of a lane. Only the watchdog writes them.
#[derive(Debug)]
pub(crate) struct Stalls {
    /// Stalls by route; the last is [`NO_ROUTE`].
    counts: Vec<Count>,
    stalled: Count,
}

impl Stalls {
    pub(crate) fn new(routes: usize) -> Self {
        let counts = (0..=routes).map(|_| Count::default()).collect();
        Stalls { counts, stalled: Count::default() }
    }

    /// The number of stalls by route; the last is [`NO_ROUTE`].
    pub(crate) fn counts(&self) -> impl Iterator<Item = u64> {
        self.counts.iter().map(Count::get)
    }

    /// Whether the lane is stalled now.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.get() > 0
    }

    pub(crate) fn begin(&self, kind: Option<KindIndex>) {
        let route = kind.map_or(self.counts.len() - 1, KindIndex::route);
        self.counts[route].add(1);
        self.stalled.set(1);
    }

    pub(crate) fn end(&self) {
        self.stalled.set(0);
    }
}
