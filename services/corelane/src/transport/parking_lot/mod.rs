//! A lane's parked connections. Each parked connection is an entry in a table and in the lot's own
//! epoll, without a task and without the state that the event loop keeps for a socket.
//!
//! The event loop watches the lot's epoll as one descriptor, which is readable when an item is
//! ready (epoll(7)). Items are level-triggered, so connections that do not fit in one turn are
//! reported again in the next.

mod table;

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use self::table::Table;
use crate::base::clock::Tick;
use crate::metrics::{Refusal, Woken};
use crate::request::connection::{Due, Wait};
use crate::request::lane_state::LaneState;
use crate::transport::resting::Resting;

/// Events that wake a parked connection: input, or the end of the client's side.
const WAKES: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);

/// How long parking pauses after the kernel has rejected a connection (epoll_ctl(2): `ENOSPC`,
/// `ENOMEM`). The kernel would also reject other connections, and each attempt costs as much as
/// parking and waking.
pub(super) const PAUSE: Duration = Duration::from_secs(10);

/// Connections checked per event-loop turn of a sweep. Their memory is not in the CPU cache, and a
/// lane may have many thousands of connections while requests are waiting.
pub(crate) const SLICE: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct ParkingLot {
    parked: RefCell<Table<Parked>>,
    /// The time when the kernel last rejected a connection, on the lane's sweep clock.
    refused: Cell<Option<Instant>>,
    /// Set if the lane parks connections and its event loop runs.
    epoll: OnceCell<AsyncFd<OwnedFd>>,
    /// Notified when the lane's sweep reaches the parking lot.
    pub(super) swept: Notify,
}

#[derive(Debug)]
struct Parked {
    resting: Resting,
    /// The time when the connection was parked, on the lane's sweep clock. Takes one word.
    since: Tick,
}

impl ParkingLot {
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

    pub(crate) fn unfinished_headers(&self) -> usize {
        let parked = self.parked.borrow();
        parked.iter().filter(|parked| parked.resting.history.in_header).count()
    }

    pub(crate) fn sweep(&self) {
        self.swept.notify_one();
    }

    pub(crate) fn takes(&self, lane: &LaneState) -> bool {
        let since = |refused| lane.clock.get().saturating_duration_since(refused);
        self.refused.get().is_none_or(|refused| since(refused) > PAUSE)
    }

    /// Returns the connection if the kernel rejects it.
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

    /// Fills `events` with connections to wake. Returns whether more connections may be ready.
    pub(super) fn ready(&self, events: &mut Vec<Event>) -> bool {
        events.clear();
        let Some(epoll) = self.epoll.get() else { return false };
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let told = epoll::wait(epoll, rustix::buffer::spare_capacity(events), Some(&at_once));
        // The call fails only if a signal interrupts it, and events may then remain.
        told.is_err() || events.len() == events.capacity()
    }

    pub(super) fn take(&self, lane: &LaneState, key: usize, why: Woken) -> Option<Resting> {
        let Parked { mut resting, since } = self.parked.borrow_mut().remove(key)?;
        if let Some(epoll) = self.epoll.get() {
            // Fails only if the descriptor is not registered.
            let _ = epoll::delete(epoll, &resting.socket);
        }
        lane.metrics().wake(why);
        let rested = rested(since, lane.clock.get().into());
        resting.history.waited = resting.history.waited.map(|waited| waited + rested);
        resting.history.retires_in =
            resting.history.retires_in.map(|left| left.saturating_sub(rested));
        Some(resting)
    }

    /// Checks some connections, starting at this key. Returns up to `most` overdue connections, and
    /// the next key if there are more to check.
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
    /// The reason to end the connection at `now`, if any.
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
