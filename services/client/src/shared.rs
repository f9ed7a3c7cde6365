//! What all lanes share of a called service.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use corelane::Dependency;
use tokio::sync::{Notify, watch};

use crate::metrics::Totals;
use crate::settings::Settings;

/// Calls that earn one retry: retries are at most 20% of the calls.
const COST: u32 = 5;

/// Retries that a budget starts with, and that it saves at most.
const FIRST: u32 = 10;
const BURST: u32 = 100;

/// The endpoints of a service, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// DNS has not answered yet.
    Pending,
    Endpoints(Arc<[SocketAddr]>),
    /// There are none, with the reason.
    Nothing(Arc<str>),
}

/// What all lanes share.
pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    pub(crate) settings: Settings,
    pub(crate) totals: Totals,
    pub(crate) budget: Budget,
    /// Triggers a DNS query before the records expire.
    pub(crate) hurry: Notify,
    pub(crate) known: watch::Sender<Known>,
    pub(crate) dependency: Mutex<Option<Dependency>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn publish(&self, known: Known) {
        let endpoints = if let Known::Endpoints(all) = &known { all.len() as u64 } else { 0 };
        self.totals.endpoints.store(endpoints, Relaxed);
        self.tell(&known);
        self.known.send_if_modified(|current| {
            let is_new = *current != known;
            *current = known;
            is_new
        });
    }

    pub(crate) fn tell(&self, known: &Known) {
        match (&*lock(&self.dependency), known) {
            (Some(dependency), Known::Endpoints(_)) => dependency.up(),
            (Some(dependency), Known::Nothing(reason)) => dependency.down(&**reason),
            _ => {}
        }
    }
}

/// The retries that are still allowed, for all lanes. Each call earns a fifth of a retry.
#[derive(Debug)]
pub(crate) struct Budget(AtomicU32);

impl Budget {
    pub(crate) fn new() -> Self {
        Budget(AtomicU32::new(FIRST * COST))
    }

    pub(crate) fn earn(&self) {
        // While the budget is full, lanes only read it.
        let _ = self
            .0
            .fetch_update(Relaxed, Relaxed, |saved| (saved < BURST * COST).then_some(saved + 1));
    }

    pub(crate) fn take(&self) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |saved| saved.checked_sub(COST)).is_ok()
    }

    pub(crate) fn retries(&self) -> u64 {
        u64::from(self.0.load(Relaxed) / COST)
    }
}

/// A panic cannot leave inconsistent state here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_in_five_earns_a_retry() {
        let budget = Budget(AtomicU32::new(0));
        let taken = (0..1000).filter(|_| {
            budget.earn();
            budget.take()
        });
        assert_eq!(taken.count(), 200);
    }

    #[test]
    fn a_quiet_time_saves_no_more_than_a_burst() {
        let budget = Budget::new();
        assert_eq!(budget.retries(), u64::from(FIRST));
        (0..10_000).for_each(|_| budget.earn());
        assert_eq!((0..1000).filter(|_| budget.take()).count(), BURST as usize);
    }
}
