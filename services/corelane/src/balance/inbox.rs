//! Hands connections from the acceptor to lanes, and lets idle lanes steal from busy lanes.
//!
//! The acceptor puts each connection into a lane's inbox and wakes the lane. A lane takes one
//! connection per event-loop turn and leaves the rest for other lanes. If a lane is awake and
//! therefore busy, other lanes may steal a connection that has been in its inbox for
//! [`STEAL_AFTER`]. They do not steal from a sleeping lane, because it has already been woken. If
//! stealing would make lanes less even, the connection must have waited for [`HELD_UP_AFTER`]. By
//! then, either a handler is blocking the lane or the lane has lost its CPU.
//!
//! No wake-up is lost, because only the acceptor adds connections. While an inbox holds a
//! connection, the acceptor checks every [`STEAL_AFTER`] and wakes sleeping lanes that may steal
//! it. A lane that is about to sleep reads a flag that the acceptor sets.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use super::assignment::{Assignment, Assignments};
use super::load::{Load, least};
use crate::load::lane::LaneShared;
use crate::load::peers::PeerPlace;
use crate::metrics::{LaneMetrics, Refusal};
use crate::os::listener::Accepted;

/// Minimum time that a connection waits in a busy lane's inbox before other lanes may steal it:
/// several turns of an unblocked event loop.
pub(crate) const STEAL_AFTER: Duration = Duration::from_millis(1);

/// The minimum wait if stealing would make the lanes less even.
const HELD_UP_AFTER: Duration = Duration::from_millis(10);

/// Maximum connections in an inbox. Further connections stay in the accept queue.
const CAPACITY: usize = 1024;

#[derive(Debug)]
struct Handed {
    accepted: Accepted,
    since: Instant,
    admitted: Result<PeerPlace, Refusal>,
}

#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) accepted: Accepted,
    /// An error means that the connection exceeds a limit and must be rejected.
    pub(crate) admitted: Result<(Assignment, PeerPlace), Refusal>,
}

#[derive(Debug)]
pub(crate) struct Inboxes {
    pub(crate) lanes: Vec<Inbox>,
    assignments: Arc<Assignments>,
    /// Counts connections that the acceptor rejected or failed to accept.
    pub(crate) acceptor: LaneMetrics,
    waiting: AtomicUsize,
    /// Hint from the acceptor's last check that a connection can be stolen.
    stealable: AtomicBool,
    finished: watch::Sender<bool>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Inbox {
    queue: Mutex<VecDeque<Handed>>,
    length: AtomicUsize,
    /// Number of connections added since startup.
    placed: AtomicUsize,
    asleep: AtomicBool,
    pub(crate) wake: Notify,
}

impl Inbox {
    fn queue(&self) -> MutexGuard<'_, VecDeque<Handed>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn length(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    pub(crate) fn placed(&self) -> usize {
        self.placed.load(Ordering::Relaxed)
    }
}

impl Inboxes {
    pub(crate) fn new(lanes: usize) -> Self {
        Inboxes {
            lanes: (0..lanes).map(|_| Inbox::default()).collect(),
            assignments: Assignments::new(lanes),
            acceptor: LaneMetrics::new((0, 0)),
            waiting: AtomicUsize::new(0),
            stealable: AtomicBool::new(false),
            finished: watch::Sender::new(false),
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Adds a connection to the inbox of `lane` and wakes the lane, which also rejects connections
    /// that were not admitted. Called only by the acceptor.
    pub(crate) fn put(
        &self,
        lane: usize,
        accepted: Accepted,
        admitted: Result<PeerPlace, Refusal>,
    ) {
        let inbox = &self.lanes[lane];
        if admitted.is_ok() {
            self.assignments.add(lane);
            inbox.placed.fetch_add(1, Ordering::Relaxed);
        }
        {
            let mut queue = inbox.queue();
            queue.push_back(Handed { accepted, since: Instant::now(), admitted });
            inbox.length.store(queue.len(), Ordering::Relaxed);
            self.waiting.fetch_add(1, Ordering::Release);
        }
        inbox.wake.notify_one();
    }

    /// Takes the oldest connection in the lane's own inbox or, if that inbox is empty, steals a
    /// connection from a busy lane. Call this only on the thread of `lane`.
    pub(crate) fn take(&self, lanes: &[Arc<LaneShared>], lane: usize) -> Option<Received> {
        let handed = self.pop(&self.lanes[lane], |_| true).or_else(|| self.steal(lanes, lane))?;
        let assign = |place| (Assignment::new(&self.assignments, lane), place);
        Some(Received { accepted: handed.accepted, admitted: handed.admitted.map(assign) })
    }

    fn steal(&self, lanes: &[Arc<LaneShared>], lane: usize) -> Option<Handed> {
        if !self.stealable.load(Ordering::Acquire) {
            return None;
        }
        let now = Instant::now();
        let others = (lane + 1..self.lanes.len()).chain(0..lane);
        for other in others.filter(|&other| self.lanes[other].is_awake()) {
            let patience = self.patience(lane, other);
            let inbox = &self.lanes[other];
            if let Some(handed) = self.pop(inbox, |handed| handed.waited(now) >= patience) {
                if handed.admitted.is_ok() {
                    self.assignments.reassign(other, lane);
                }
                lanes[lane].metrics.stolen.add(1);
                return Some(handed);
            }
        }
        // The acceptor sets the flag again if it finds more connections to steal.
        self.stealable.store(false, Ordering::Release);
        None
    }

    fn pop(&self, inbox: &Inbox, may: impl Fn(&Handed) -> bool) -> Option<Handed> {
        if inbox.length() == 0 {
            return None;
        }
        let mut queue = inbox.queue();
        let handed = queue.pop_front_if(|handed| may(handed))?;
        inbox.length.store(queue.len(), Ordering::Relaxed);
        self.waiting.fetch_sub(1, Ordering::Release);
        Some(handed)
    }

    /// Wakes sleeping lanes that may steal, at most one per overdue connection.
    pub(crate) fn wake_idle(&self) {
        let now = Instant::now();
        let busy: Vec<_> = self
            .lanes
            .iter()
            .enumerate()
            .filter(|(_, inbox)| inbox.length() > 0 && inbox.is_awake())
            .filter_map(|(lane, inbox)| Some((lane, inbox.queue().front()?.waited(now))))
            .filter(|(_, waited)| *waited >= STEAL_AFTER)
            .collect();
        if busy.is_empty() {
            return;
        }
        self.stealable.store(true, Ordering::Release);
        let overdue = busy.iter().map(|&(lane, _)| self.lanes[lane].length()).sum();
        self.lanes
            .iter()
            .enumerate()
            .filter(|(_, inbox)| inbox.asleep.load(Ordering::Relaxed))
            .filter(|&(thief, _)| {
                busy.iter().any(|&(other, waited)| waited >= self.patience(thief, other))
            })
            .take(overdue)
            .for_each(|(_, inbox)| inbox.wake.notify_one());
    }

    /// Records that `lane` is about to sleep, and wakes it at once if it could steal.
    pub(crate) fn fall_asleep(&self, lane: usize) {
        let inbox = &self.lanes[lane];
        inbox.asleep.store(true, Ordering::Relaxed);
        if self.stealable.load(Ordering::Acquire) {
            inbox.wake.notify_one();
        }
    }

    pub(crate) fn wake_up(&self, lane: usize) {
        self.lanes[lane].asleep.store(false, Ordering::Relaxed);
    }

    /// Stops the inboxes: waiting connections are dropped, and waiting lanes may end.
    pub(crate) fn finish(&self) {
        for inbox in &self.lanes {
            while self.pop(inbox, |_| true).is_some() {}
        }
        self.finished.send_replace(true);
    }

    pub(crate) fn watch_finished(&self) -> watch::Receiver<bool> {
        self.finished.subscribe()
    }

    /// Whether any listening lane has room.
    pub(crate) fn have_room(&self, lanes: &[Arc<LaneShared>]) -> bool {
        self.lanes.iter().zip(lanes).any(|(inbox, lane)| inbox.has_room(lane))
    }

    /// Picks the lane for the next connection. Ties go to the first lane from `next`. `None` if no
    /// listening lane has room.
    pub(crate) fn choose(&self, lanes: &[Arc<LaneShared>], next: usize) -> Option<usize> {
        let now = Instant::now();
        let loads = self.lanes.iter().zip(lanes).enumerate().map(|(index, (inbox, lane))| {
            let load = Load::of(lane, now, self.assignments.get(index), inbox.length());
            Load { open: inbox.has_room(lane), ..load }
        });
        least(loads, next)
    }

    /// The time that a connection must have waited at `other` before `thief` may steal it.
    fn patience(&self, thief: usize, other: usize) -> Duration {
        let fewer = self.assignments.get(thief) < self.assignments.get(other);
        if fewer { STEAL_AFTER } else { HELD_UP_AFTER }
    }
}

impl Inbox {
    fn has_room(&self, lane: &LaneShared) -> bool {
        lane.is_listening() && self.length() < CAPACITY
    }

    fn is_awake(&self) -> bool {
        !self.asleep.load(Ordering::Relaxed)
    }
}

impl Handed {
    fn waited(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::task::{Context, Waker};

    use super::*;

    fn accepted() -> Accepted {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let socket = TcpStream::connect(address).expect("connect");
        Accepted { socket, peer: None, proxied: false, common: false }
    }

    /// Whether the lane has been woken since the last call.
    fn was_told(inbox: &Inbox) -> bool {
        let told = std::pin::pin!(inbox.wake.notified());
        told.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// Repeats the acceptor's check until `lane` is woken. Returns false if that takes longer than
    /// 50 times [`HELD_UP_AFTER`].
    fn is_woken(inboxes: &Inboxes, lane: usize) -> bool {
        let begun = Instant::now();
        loop {
            // Read before checking the time, because this thread may lose its CPU in between.
            let over = begun.elapsed() >= 50 * HELD_UP_AFTER;
            inboxes.wake_idle();
            if was_told(&inboxes.lanes[lane]) {
                return true;
            }
            if over {
                return false;
            }
            std::thread::sleep(STEAL_AFTER);
        }
    }

    #[test]
    fn what_waits_at_a_busy_lane_wakes_one_that_sleeps() {
        let inboxes = Inboxes::new(3);
        inboxes.fall_asleep(2);
        inboxes.put(0, accepted(), Ok(PeerPlace::default()));
        assert!(was_told(&inboxes.lanes[0]), "its own lane first");
        assert!(is_woken(&inboxes, 2));
        assert!(!was_told(&inboxes.lanes[1]), "lane 1 is busy itself");
        inboxes.fall_asleep(1);
        assert!(was_told(&inboxes.lanes[1]), "and looks when it has nothing to do");
    }

    #[test]
    fn what_waits_at_a_lane_that_sleeps_is_left_to_it() {
        let inboxes = Inboxes::new(2);
        inboxes.fall_asleep(0);
        inboxes.fall_asleep(1);
        inboxes.put(0, accepted(), Ok(PeerPlace::default()));
        assert!(!is_woken(&inboxes, 1));
        inboxes.wake_up(0);
        assert!(is_woken(&inboxes, 1), "until it is awake and does not come");
    }

    #[test]
    fn a_steal_that_leaves_lanes_less_even_takes_longer() {
        let inboxes = Inboxes::new(2);
        (0..3).for_each(|_| inboxes.assignments.add(1));
        for (added, connections, patience) in
            [(0, 0, STEAL_AFTER), (2, 2, STEAL_AFTER), (1, 3, HELD_UP_AFTER)]
        {
            (0..added).for_each(|_| inboxes.assignments.add(0));
            assert_eq!(inboxes.patience(0, 1), patience, "{connections} to 3");
        }
    }
}
