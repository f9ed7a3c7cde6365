//! Exchanges of a lane that continue after the head of their reply: replies whose bodies arrive in
//! parts, and upgraded connections and streams.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use slab::Slab;

use crate::base::clock::Tick;
use crate::base::tally::Tally;
use crate::load::lane::Lane;
use crate::metrics::kind::KindIndex;

/// Why an exchange continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ongoing {
    /// The service is still producing the body of the reply.
    Streaming,
    /// Another protocol uses the connection or the stream.
    Upgraded,
}

impl Ongoing {
    /// Its name in the log.
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
    open: RefCell<Slab<(KindIndex, Tick, Ongoing)>>,
}

impl Exchanges {
    pub(crate) fn new(lane: Lane) -> Rc<Self> {
        Rc::new(Exchanges { lane, open: RefCell::default() })
    }

    /// The kind and age of each exchange, and why it continues.
    pub(crate) fn ages(&self, now: Tick) -> Vec<(KindIndex, Duration, Ongoing)> {
        let open = self.open.borrow();
        let age = |begun: Tick| Duration::from_nanos(now.since(begun));
        open.iter().map(|(_, &(kind, begun, why))| (kind, age(begun), why)).collect()
    }

    fn enter(self: &Rc<Self>, kind: KindIndex, begun: Tick, why: Ongoing) -> usize {
        self.open.borrow_mut().insert((kind, begun, why))
    }

    /// A reply is streamed to a request that began at `begun`.
    pub(crate) fn stream(self: &Rc<Self>, kind: KindIndex, begun: Tick) -> Exchange {
        let key = self.enter(kind, begun, Ongoing::Streaming);
        Exchange { exchanges: Rc::clone(self), key, upgrades: None }
    }

    /// A request that began at `begun` is upgraded. `upgrades` counts those of its connection.
    pub(crate) fn upgrade(
        self: &Rc<Self>,
        kind: KindIndex,
        begun: Tick,
        upgrades: Rc<Tally>,
    ) -> Exchange {
        let key = self.enter(kind, begun, Ongoing::Upgraded);
        upgrades.add(1);
        self.lane.shared().metrics.upgraded.add(1);
        Exchange { exchanges: Rc::clone(self), key, upgrades: Some(upgrades) }
    }
}

/// One exchange among those of its lane, removed when dropped.
#[derive(Debug)]
pub(crate) struct Exchange {
    exchanges: Rc<Exchanges>,
    key: usize,
    /// Set if it is upgraded.
    upgrades: Option<Rc<Tally>>,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.exchanges.open.borrow_mut().remove(self.key);
        if let Some(upgrades) = &self.upgrades {
            upgrades.sub(1);
            self.exchanges.lane.shared().metrics.upgraded.sub(1);
        }
    }
}
