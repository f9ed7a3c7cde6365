//! Where a lane's parked connections wait: each is an entry of a table and an item of an epoll of
//! the lot's own, without a task and without the event loop's own state for a socket.
//!
//! The event loop watches the lot's epoll as one descriptor (epoll(7): an epoll is readable when
//! one of its items is ready). Its items are level-triggered: what was ready and could not be
//! looked at in a turn is told again in the next.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use super::Resting;
use super::table::Table;
use crate::clock::Tick;
use crate::connection::{Due, Wait};
use crate::lane::LaneState;
use crate::metrics::{Refusal, Woken};
use crate::sweep::SLICE;

/// What wakes a parked connection: bytes, or the end of its client's side.
const WAKES: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);

/// How long none is parked after the kernel would not watch one (epoll_ctl(2): `ENOSPC`, `ENOMEM`):
/// it would not watch the others either, and each try costs as much as a rest and a wake.
pub(super) const PAUSE: Duration = Duration::from_secs(10);

/// The parked connections of a lane.
#[derive(Debug, Default)]
pub(crate) struct Lot {
    parked: RefCell<Table<Parked>>,
    /// When the kernel last refused to watch one, by the clock of the lane's sweeps.
    refused: Cell<Option<Instant>>,
    /// There when the lane parks connections, and its event loop runs.
    epoll: OnceCell<AsyncFd<OwnedFd>>,
    /// Told when the lane's sweep comes to the lot.
    pub(super) swept: Notify,
}

#[derive(Debug)]
struct Parked {
    resting: Resting,
    /// By the clock of the lane's sweeps, in one word.
    since: Tick,
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
        parked.iter().filter(|parked| parked.resting.history.in_header).count()
    }

    /// The sweep looks at parked connections too, as soon as the lane has time.
    pub(crate) fn sweep(&self) {
        self.swept.notify_one();
    }

    /// Whether connections are to be parked at all.
    pub(crate) fn takes(&self, lane: &LaneState) -> bool {
        let since = |refused| lane.clock.get().saturating_duration_since(refused);
        self.refused.get().is_none_or(|refused| since(refused) > PAUSE)
    }

    /// Parks a connection; gives back one that the kernel will not watch.
    pub(super) fn park(&self, lane: &LaneState, resting: Resting) -> Option<Resting> {
        let Some(epoll) = self.epoll.get() else { return Some(resting) };
        let mut parked = self.parked.borrow_mut();
        let data = EventData::new_u64(parked.next_key() as u64);
        if let Err(error) = epoll::add(epoll, &resting.socket, data, WAKES) {
            if self.takes(lane) {
                tracing::warn!(lane = lane.index, %error, "connections cannot be parked");
            }
            self.refused.set(Some(lane.clock.get()));
            return Some(resting);
        }
        parked.insert(Parked { resting, since: lane.clock.get().into() });
        lane.metrics().parkings.add(1);
        None
    }

    /// Keys of connections that are to be woken, up to as many as `events` has room for, with what
    /// happened to each; whether there may be more.
    pub(super) fn ready(&self, events: &mut Vec<Event>) -> bool {
        events.clear();
        let Some(epoll) = self.epoll.get() else { return false };
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let told = epoll::wait(epoll, rustix::buffer::spare_capacity(events), Some(&at_once));
        // Fails only for a signal: then nothing is known.
        told.is_err() || events.len() == events.capacity()
    }

    /// Takes a connection out; its history then tells how long it has waited in all.
    pub(super) fn take(&self, lane: &LaneState, key: usize, why: Woken) -> Option<Resting> {
        let Parked { mut resting, since } = self.parked.borrow_mut().remove(key)?;
        if let Some(epoll) = self.epoll.get() {
            // Fails only for a descriptor that is not in it.
            let _ = epoll::delete(epoll, &resting.socket);
        }
        lane.metrics().wake(why);
        let rested = rested(since, lane.clock.get().into());
        resting.history.waited = resting.history.waited.map(|waited| waited + rested);
        resting.history.retires_in =
            resting.history.retires_in.map(|left| left.saturating_sub(rested));
        Some(resting)
    }

    /// Looks at some connections from the one with this key on: what is due of those that have to
    /// go, up to `most` of them, and the key to go on with, if there are more.
    pub(super) fn overdue(
        &self,
        lane: &LaneState,
        from: usize,
        most: usize,
    ) -> (Vec<(usize, Due)>, Option<usize>) {
        let mut parked = self.parked.borrow_mut();
        let (keys, now) = (from..from + SLICE, lane.clock.get().into());
        let all = keys.clone().filter_map(|key| Some((key, parked.get_mut(key)?.due(lane, now)?)));
        let due: Vec<_> = all.take(most).collect();
        let last = due.last().filter(|_| due.len() == most);
        let next = last.map_or(keys.end, |(key, _)| key + 1);
        (due, (next < parked.end()).then_some(next))
    }
}

fn rested(since: Tick, now: Tick) -> Duration {
    Duration::from_nanos(now.since(since))
}

impl Parked {
    /// What is due at `now`, if anything.
    fn due(&mut self, lane: &LaneState, now: Tick) -> Option<Due> {
        let history = &mut self.resting.history;
        if history.waited.is_none() {
            (history.waited, self.since) = (Some(Duration::ZERO), now);
        }
        let rested = rested(self.since, now);
        let old = history.retires_in.is_some_and(|left| left <= rested);
        if old && !std::mem::replace(&mut history.last, true) {
            lane.metrics().refuse(Refusal::Age);
        }
        let wait = Wait {
            in_header: history.in_header,
            is_fresh: history.requests == 0,
            waited: history.waited.unwrap_or_default() + rested,
        };
        wait.due(lane)
    }
}
