//! The modelled replica.

use super::CapacityError;

/// How a replica's lanes share work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Each connection keeps its lane for all of its requests: k queues with one server each.
    #[default]
    Apart,
    /// Each request goes to the first free lane: one queue with k servers. Applies if each
    /// connection carries one request and placement is `least-loaded`.
    Together,
}

/// A replica: lanes, limits, and the cost of a request outside its handler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replica {
    /// Number of lanes, 1 to 1,024.
    pub lanes: usize,
    /// Maximum concurrent requests per lane, at least 1.
    pub slots: usize,
    /// Maximum requests per lane that wait for a slot.
    pub queue: usize,
    /// Policy for sharing work between lanes.
    pub sharing: Sharing,
    /// Load of the busiest lane divided by the mean: 1 for even lanes, at most the number of lanes.
    /// Used with [`Sharing::Apart`].
    pub unevenness: f64,
    /// Lane seconds that a request costs outside its handler (parsing, writing, kernel) while the
    /// lane does not sleep between requests.
    pub outside: f64,
    /// Seconds that a lane needs to sleep and wake up. The first request of a busy period pays this
    /// cost, so the average cost falls as the load grows.
    pub wake: f64,
    /// Minimum CPU share of a slow lane next to a busy lane, from 0 to 0.5.
    pub slow_share: f64,
    /// Network time of a request and its response in seconds, independent of the load.
    pub network: f64,
}

impl Default for Replica {
    /// A single lane with a server's default limits. `outside` is about the cost of `/hello`
    /// outside its handler on 2 cores under Linux 6.18 (`docs/capacity.md`); `wake` is an estimate
    /// for an unknown lane.
    fn default() -> Replica {
        Replica {
            lanes: 1,
            slots: 1024,
            queue: 1024,
            sharing: Sharing::Apart,
            unevenness: 1.0,
            outside: 10e-6,
            wake: 25e-6,
            slow_share: 0.15,
            network: 0.0,
        }
    }
}

impl Replica {
    pub(super) fn check(&self) -> Result<(), CapacityError> {
        let lanes = self.lanes as f64;
        let most = 1 << 20;
        let short = |seconds: f64| (0.0..=1.0).contains(&seconds);
        let rules = [
            ("lanes", lanes, (1..=1024).contains(&self.lanes), "1 to 1024"),
            ("slots", self.slots as f64, (1..=most).contains(&self.slots), "1 to 1048576"),
            ("queue", self.queue as f64, self.queue <= most, "0 to 1048576"),
            (
                "unevenness",
                self.unevenness,
                (1.0..=lanes).contains(&self.unevenness),
                "1 to the number of lanes",
            ),
            ("outside", self.outside, short(self.outside), "0 s to 1 s"),
            ("wake", self.wake, short(self.wake), "0 s to 1 s"),
            ("network", self.network, short(self.network), "0 s to 1 s"),
            ("slow share", self.slow_share, (0.0..=0.5).contains(&self.slow_share), "0 to 0.5"),
        ];
        let wrong = rules.into_iter().find(|(_, _, holds, _)| !holds);
        wrong.map_or(Ok(()), |(name, value, _, allowed)| {
            Err(CapacityError::Setting { name, value, allowed })
        })
    }

    pub(super) fn servers(&self) -> usize {
        match self.sharing {
            Sharing::Apart => 1,
            Sharing::Together => self.lanes,
        }
    }

    pub(super) fn busiest(&self) -> f64 {
        match self.sharing {
            Sharing::Apart => self.unevenness / self.lanes as f64,
            Sharing::Together => 1.0,
        }
    }
}
