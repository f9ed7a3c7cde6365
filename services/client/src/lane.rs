//! A lane's endpoints, and the requests in flight there.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::watch;

use crate::connect::{TlsState, Way};
use crate::metrics::Counters;
use crate::picker::{Handled, Picker};
use crate::shared::{Known, Shared, lock};

/// A lane's view of the service.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Arc<Counters>,
    /// Only this lane takes the lock.
    choice: Mutex<Choice>,
}

#[derive(Debug)]
struct Choice {
    picker: Picker<Arc<Way>>,
    known: watch::Receiver<Known>,
    tls: Option<TlsState>,
}

/// The result of choosing an endpoint.
pub(crate) enum Chosen {
    Endpoint(Ticket, Arc<Way>),
    /// DNS has not answered yet.
    Wait(watch::Receiver<Known>),
    Nothing(Arc<str>),
}

impl Lane {
    pub(crate) fn new(
        shared: Arc<Shared>,
        mut known: watch::Receiver<Known>,
        tls: Option<TlsState>,
    ) -> Self {
        known.mark_changed();
        let counters = shared.totals.lane();
        let choice = Mutex::new(Choice { picker: Picker::new(), known, tls });
        Lane { shared, counters, choice }
    }

    pub(crate) fn choose(self: &Arc<Self>, tried: &[SocketAddr], again: bool) -> Chosen {
        let (mut choice, now) = (lock(&self.choice), Instant::now());
        let Choice { picker, known, tls } = &mut *choice;
        if known.has_changed().unwrap_or(false) {
            let all = match &*known.borrow_and_update() {
                Known::Endpoints(all) => Arc::clone(all),
                Known::Pending | Known::Nothing(_) => Arc::default(),
            };
            let settings = &self.shared.settings;
            picker.replace(&all, now, |address| {
                Arc::new(Way::new(address, settings, tls.as_ref(), &self.counters))
            });
            // Lanes begin at different endpoints, because their addresses in memory differ.
            picker.rotate(Arc::as_ptr(self).addr() >> 7);
        }
        if let Some((address, way)) = picker.pick(now, tried, again) {
            return Chosen::Endpoint(Ticket { lane: Arc::clone(self), address }, way);
        }
        match &*known.borrow() {
            Known::Pending => Chosen::Wait(known.clone()),
            Known::Nothing(reason) => Chosen::Nothing(Arc::clone(reason)),
            Known::Endpoints(_) => Chosen::Nothing("no other endpoint is available".into()),
        }
    }

    pub(crate) fn learn(&self, address: SocketAddr, handled: Handled, speed: Option<f64>) {
        let (mut choice, now) = (lock(&self.choice), Instant::now());
        choice.picker.learn(address, handled, now);
        if let Some(speed) = speed {
            choice.picker.report(address, speed, now);
        }
        self.counters.ejected.store(choice.picker.ejected() as u64, Relaxed);
        if handled == Handled::Unreachable {
            self.shared.hurry.notify_one();
        }
    }
}

/// Counts a request as in flight at its endpoint.
#[derive(Debug)]
pub(crate) struct Ticket {
    lane: Arc<Lane>,
    pub(crate) address: SocketAddr,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        lock(&self.lane.choice).picker.end(self.address);
    }
}
