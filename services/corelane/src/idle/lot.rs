//! Where a lane's parked connections wait: each is an entry of a table and an item of an epoll of
//! the lot's own, without a task and without the event loop's own state for a socket.
//!
//! The event loop watches the lot's epoll as one descriptor (epoll(7): an epoll is readable when
//! one of its items is ready). Its items are level-triggered: what was ready and could not be
//! looked at in a turn is told again in the next.

use std::cell::{OnceCell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use slab::Slab;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use super::Resting;
use crate::connection::{Due, Wait};
use crate::lane::LaneState;
use crate::metrics::{Refusal, Woken};

/// What wakes a parked connection: bytes, or the end of its client's side.
const WAKES: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);

/// The parked connections of a lane.
#[derive(Debug, Default)]
pub(crate) struct Lot {
    parked: RefCell<Slab<Parked>>,
    /// There when the lane parks connections, and its event loop runs.
    epoll: OnceCell<AsyncFd<OwnedFd>>,
    /// Told when the lane's sweep comes to the lot.
    pub(super) swept: Notify,
}

#[derive(Debug)]
struct Parked {
    resting: Resting,
    /// By the clock of the lane's sweeps.
    since: Instant,
}

impl Lot {
    /// Has the event loop of the calling thread watch it.
    pub(crate) fn open(&self) -> io::Result<()> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        #[expect(deprecated, reason = "sound for an OwnedFd, which is the same file for its life")]
        let epoll = AsyncFd::with_interest(epoll, Interest::READABLE)?;
        let _ = self.epoll.set(epoll);
        Ok(())
    }

    pub(super) fn epoll(&self) -> Option<&AsyncFd<OwnedFd>> {
        self.epoll.get()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parked.borrow().is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.parked.borrow().len()
    }

    /// Parked connections that wait for the rest of a head.
    pub(crate) fn unfinished_headers(&self) -> usize {
        let parked = self.parked.borrow();
        parked.iter().filter(|(_, parked)| parked.resting.history.in_header).count()
    }

    /// The sweep looks at parked connections too, as soon as the lane has time.
    pub(crate) fn sweep(&self) {
        self.swept.notify_one();
    }

    /// Parks a connection; gives back one that the kernel will not watch.
    pub(super) fn park(&self, lane: &LaneState, resting: Resting) -> Option<Resting> {
        let Some(epoll) = self.epoll.get() else { return Some(resting) };
        let mut parked = self.parked.borrow_mut();
        let entry = parked.vacant_entry();
        let data = EventData::new_u64(entry.key() as u64);
        if let Err(error) = epoll::add(epoll, &resting.socket, data, WAKES) {
            tracing::warn!(lane = lane.index, %error, "a connection cannot be parked");
            return Some(resting);
        }
        entry.insert(Parked { resting, since: lane.clock.get() });
        lane.metrics().parkings.add(1);
        None
    }

    /// Keys of connections that are to be woken, up to as many as `events` has room for, with what
    /// happened to each.
    pub(super) fn ready(&self, events: &mut Vec<Event>) {
        events.clear();
        let Some(epoll) = self.epoll.get() else { return };
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Fails only for a signal; then it is asked again.
        let _ = epoll::wait(epoll, rustix::buffer::spare_capacity(events), Some(&at_once));
    }

    /// Takes a connection out; its history then tells how long it has waited in all.
    pub(super) fn take(&self, lane: &LaneState, key: usize, why: Woken) -> Option<Resting> {
        let Parked { mut resting, since } = self.parked.borrow_mut().try_remove(key)?;
        if let Some(epoll) = self.epoll.get() {
            // Fails only for a descriptor that is not in it.
            let _ = epoll::delete(epoll, &resting.socket);
        }
        lane.metrics().wake(why);
        let rested = lane.clock.get().saturating_duration_since(since);
        resting.history.waited = resting.history.waited.map(|waited| waited + rested);
        resting.history.retires_in =
            resting.history.retires_in.map(|left| left.saturating_sub(rested));
        Some(resting)
    }

    /// What is due of the connections with these keys; the keys of those that have to go. `None`:
    /// there are no further keys.
    pub(super) fn overdue(
        &self,
        lane: &LaneState,
        keys: std::ops::Range<usize>,
    ) -> Option<Vec<(usize, Due)>> {
        let mut parked = self.parked.borrow_mut();
        if keys.start >= parked.capacity() {
            return None;
        }
        let now = lane.clock.get();
        let due = keys.filter_map(|key| Some((key, parked.get_mut(key)?.due(lane, now)?)));
        Some(due.collect())
    }
}

impl Parked {
    /// What is due at `now`, if anything.
    fn due(&mut self, lane: &LaneState, now: Instant) -> Option<Due> {
        let history = &mut self.resting.history;
        if history.waited.is_none() {
            (history.waited, self.since) = (Some(Duration::ZERO), now);
        }
        let rested = now.saturating_duration_since(self.since);
        let old = history.retires_in.is_some_and(|left| left <= rested);
        if old && !std::mem::replace(&mut history.last, true) {
            lane.metrics().refuse(Refusal::Age);
        }
        let wait = Wait {
            in_header: history.in_header,
            is_fresh: history.requests == 0,
            is_old: old,
            waited: history.waited.unwrap_or_default() + rested,
        };
        wait.due(lane)
    }
}
