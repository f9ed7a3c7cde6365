//! Exchanges that continue after their response head: streamed responses, and upgraded connections
//! and streams.

use std::rc::Rc;
use std::time::Duration;

use crate::base::clock::Tick;
use crate::base::registry::{Entry, Registry};
use crate::base::tally::Tally;
use crate::load::lane::Lane;
use crate::metrics::kind::KindIndex;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ongoing {
    Streaming,
    Upgraded,
}

impl Ongoing {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Ongoing::Streaming => "streaming",
            Ongoing::Upgraded => "upgraded",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Exchanges {
    lane: Lane,
    open: Registry<(KindIndex, Tick, Ongoing)>,
}

impl Exchanges {
    pub(crate) fn new(lane: Lane) -> Self {
        Exchanges { lane, open: Registry::default() }
    }

    pub(crate) fn ages(&self, now: Tick) -> Vec<(KindIndex, Duration, Ongoing)> {
        let open = self.open.all();
        let age = |begun: Tick| Duration::from_nanos(now.since(begun));
        open.iter().map(|(_, &(kind, begun, why))| (kind, age(begun), why)).collect()
    }

    pub(crate) fn stream(&self, kind: KindIndex, begun: Tick) -> Exchange {
        let entry = self.open.enter((kind, begun, Ongoing::Streaming));
        Exchange { _entry: entry, upgraded: None }
    }

    /// `upgrades` counts the upgrades on the request's connection.
    pub(crate) fn upgrade(&self, kind: KindIndex, begun: Tick, upgrades: Rc<Tally>) -> Exchange {
        let entry = self.open.enter((kind, begun, Ongoing::Upgraded));
        upgrades.add(1);
        self.lane.shared().metrics.upgraded.add(1);
        Exchange { _entry: entry, upgraded: Some((self.lane.clone(), upgrades)) }
    }
}

#[derive(Debug)]
pub(crate) struct Exchange {
    _entry: Entry<(KindIndex, Tick, Ongoing)>,
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
