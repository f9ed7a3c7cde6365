//! Picks the lane for a parked connection that wakes up.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::load::{Load, any, better, counts_for, note_busy};
use super::mailbox::Mailbox;
use crate::load::lane::LaneShared;
use crate::request::lane_state::LaneState;

#[derive(Debug)]
pub(crate) struct RecentLoad {
    /// Connections that woke up here and whose requests may not have started yet, and the time when
    /// counting them began.
    woken: Cell<(Instant, u64)>,
    /// Time of the last sweep, and the lane's total busy time when it ran.
    swept: Cell<(Instant, Duration)>,
}

impl RecentLoad {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        RecentLoad { woken: Cell::new((now, 0)), swept: Cell::new((now, Duration::ZERO)) }
    }

    pub(crate) fn sweep(&self, lane: &LaneState, active: usize) {
        let now = Instant::now();
        let (before, busy_before) = self.swept.get();
        let busy = lane.shared().loop_busy();
        self.swept.set((now, busy));
        let passed = now.saturating_duration_since(before).as_secs_f64().max(1e-6);
        let share = (busy.saturating_sub(busy_before).as_secs_f64() / passed).min(1.0);
        note_busy(lane.shared(), share);
        lane.metrics().active.set(active as u64);
    }

    /// Connections that woke up here recently. They are counted until the lane is expected to have
    /// served all of them.
    fn woken(&self, now: Instant, each: Duration) -> u64 {
        let (since, count) = self.woken.get();
        let over = now.saturating_duration_since(since) > counts_for(count, each);
        if over {
            self.woken.set((now, 0));
        }
        self.woken.get().1
    }

    fn wake(&self) {
        let (since, count) = self.woken.get();
        self.woken.set((since, count + 1));
    }

    /// The lane that should resume a connection that has woken up on `lane`, or `None` for `lane`
    /// itself.
    pub(super) fn choose_lane<R>(
        &self,
        lane: &LaneState,
        mailboxes: &[Mailbox<R>],
    ) -> Option<usize> {
        let (now, own) = (Instant::now(), lane.index);
        let each = lane.group().iter().zip(mailboxes).enumerate();
        let loads = each.map(|(index, (each, mailbox))| {
            let here = || self.woken(now, any(each)) as usize;
            let coming = if index == own { here() } else { mailbox.length() };
            let load = Load::of(each, now, 0, coming);
            Load { expected: load.expected + overdue(each, now), ..load }
        });
        let chosen = better(&loads.collect::<Vec<_>>(), own);
        if chosen.is_none() {
            self.wake();
        }
        chosen
    }
}

/// A handler that has exceeded its expected time is expected to take as long again.
fn overdue(lane: &LaneShared, now: Instant) -> Duration {
    lane.running.get(now).map_or(Duration::ZERO, |(kind, held)| {
        let expected = Duration::from_nanos(lane.load_table.expect(kind));
        if held > expected { held } else { Duration::ZERO }
    })
}
