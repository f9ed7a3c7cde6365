//! Exchanges of a lane that continue after the head of their response: responses whose bodies
//! arrive in parts, and upgraded connections and streams.

use std::rc::Rc;
use std::time::Duration;

use crate::base::clock::Tick;
use crate::base::registry::{Entry, Registry};
use crate::base::tally::Tally;
use crate::load::lane::Lane;
use crate::metrics::kind::KindIndex;

/// Why an exchange continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ongoing {
    /// The service is still producing the response body.
    Streaming,
    /// Another protocol uses the connection or stream.
    Upgraded,
}

impl Ongoing {
    /// The name in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Ongoing::Streaming => "streaming",
            Ongoing::Upgraded => "upgraded",
        }
    }
}

/// All ongoing exchanges of a lane.
#[derive(Debug)]
pub(crate) struct Exchanges {
    lane: Lane,
    open: Registry<(KindIndex, Tick, Ongoing)>,
}

impl Exchanges {
    pub(crate) fn new(lane: Lane) -> Self {
        Exchanges { lane, open: Registry::default() }
    }

    /// The kind and age of each exchange, and why it continues.
    pub(crate) fn ages(&self, now: Tick) -> Vec<(KindIndex, Duration, Ongoing)> {
        let open = self.open.all();
        let age = |begun: Tick| Duration::from_nanos(now.since(begun));
        open.iter().map(|(_, &(kind, begun, why))| (kind, age(begun), why)).collect()
    }

    /// Adds a streamed response to a request that began at `begun`.
    pub(crate) fn stream(&self, kind: KindIndex, begun: Tick) -> Exchange {
        let entry = self.open.enter((kind, begun, Ongoing::Streaming));
        Exchange { _entry: entry, upgraded: None }
    }

    /// Adds an upgraded request that began at `begun`. `upgrades` counts the upgrades of its
    /// connection.
    pub(crate) fn upgrade(&self, kind: KindIndex, begun: Tick, upgrades: Rc<Tally>) -> Exchange {
        let entry = self.open.enter((kind, begun, Ongoing::Upgraded));
        upgrades.add(1);
        self.lane.shared().metrics.upgraded.add(1);
        Exchange { _entry: entry, upgraded: Some((self.lane.clone(), upgrades)) }
    }
}

/// One of the lane's exchanges.
#[derive(Debug)]
pub(crate) struct Exchange {
    _entry: Entry<(KindIndex, Tick, Ongoing)>,
    /// For an upgrade: its lane, and the number of upgrades of its connection.
    upgraded: Option<(Lane, Rc<Tally>)>,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some((lane, upgrades)) = &self.upgraded {
            upgrades.sub(1);
            lane.shared().metrics.upgraded.sub(1);
        }
    }
}
