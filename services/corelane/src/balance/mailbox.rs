//! Connections in transit between lanes.
//!
//! No connection is lost. Before a lane exits, it closes its mailbox, but only if the mailbox is
//! empty. It holds the same lock as lanes that add connections. A connection that arrives later is
//! returned and stays on its lane.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::policy::{Spent, Step};

/// Maximum connections accepted per event-loop turn, so that other tasks also run.
pub(crate) const IN_A_TURN: usize = 32;

/// A lane's mailbox for connections and plan steps, on its own cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Mailbox<R> {
    inside: Mutex<MailboxState<R>>,
    pub(crate) wake: Notify,
}

#[derive(Debug)]
struct MailboxState<R> {
    resting: VecDeque<R>,
    closed: bool,
    /// Pending step and the number of its plan.
    step: Option<Step>,
    plan: u32,
    /// Connections and load that the lane has handed over under that plan.
    spent: Spent,
}

impl<R> Mailbox<R> {
    pub(crate) fn new() -> Self {
        let inside = MailboxState {
            resting: VecDeque::new(),
            closed: false,
            step: None,
            plan: 0,
            spent: Spent::default(),
        };
        Mailbox { inside: Mutex::new(inside), wake: Notify::new() }
    }

    fn inside(&self) -> MutexGuard<'_, MailboxState<R>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn offer(&self, resting: R) -> Result<(), R> {
        let mut inside = self.inside();
        if inside.closed {
            return Err(resting);
        }
        inside.resting.push_back(resting);
        drop(inside);
        self.wake.notify_one();
        Ok(())
    }

    pub(super) fn length(&self) -> usize {
        self.inside().resting.len()
    }

    pub(crate) fn take(&self) -> Option<R> {
        let mut inside = self.inside();
        let taken = inside.resting.pop_front();
        if inside.resting.is_empty() {
            inside.resting.shrink_to(IN_A_TURN);
        }
        taken
    }

    /// Closes the mailbox unless it contains connections. Returns whether it was closed.
    pub(crate) fn close(&self) -> bool {
        let mut inside = self.inside();
        inside.closed |= inside.resting.is_empty();
        inside.closed
    }

    pub(crate) fn abandon(&self) {
        let left = {
            let mut inside = self.inside();
            inside.closed = true;
            std::mem::take(&mut inside.resting)
        };
        drop(left);
    }

    /// Sends a plan step to the lane. Called only by the mover.
    pub(super) fn tell(&self, step: Step) {
        let mut inside = self.inside();
        if step == Step::Observe {
            inside.plan = inside.plan.wrapping_add(1);
            inside.spent = Spent::default();
        }
        inside.step = Some(step);
        drop(inside);
        self.wake.notify_one();
    }

    /// Takes a step sent since the last call, with the number of its plan.
    pub(super) fn step(&self) -> Option<(u32, Step)> {
        let mut inside = self.inside();
        let plan = inside.plan;
        inside.step.take().map(|step| (plan, step))
    }

    pub(super) fn is_unheard(&self) -> bool {
        self.inside().step.is_some()
    }

    pub(super) fn spend(&self, plan: u32, taken: f64) {
        let mut inside = self.inside();
        if inside.plan == plan {
            inside.spent.connections += 1;
            inside.spent.taken += taken;
        }
    }

    /// Connections and load that the lane has handed over under the last plan.
    pub(super) fn spent(&self) -> Spent {
        self.inside().spent
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::super::policy::Transfer;
    use super::*;
    use crate::metrics::Moved;

    #[test]
    fn a_lane_ends_only_when_nothing_waits_for_it() {
        let mailbox = Mailbox::new();
        assert_eq!(mailbox.offer(1), Ok(()));
        assert!(!mailbox.close(), "one waits");
        assert_eq!(mailbox.offer(2), Ok(()), "so it takes more");
        assert_eq!([mailbox.take(), mailbox.take(), mailbox.take()], [Some(1), Some(2), None]);
        assert!(mailbox.close());
        assert_eq!(mailbox.offer(3), Err(3));
        assert_eq!(mailbox.take(), None);
    }

    #[test]
    fn what_is_offered_to_a_lane_that_ends_is_taken_or_given_back() {
        for _ in 0..200 {
            let mailbox = Arc::new(Mailbox::new());
            let offers = {
                let mailbox = Arc::clone(&mailbox);
                thread::spawn(move || (0..50).filter(|&n| mailbox.offer(n).is_ok()).count())
            };
            let mut taken = 0;
            while !mailbox.close() {
                taken += std::iter::from_fn(|| mailbox.take()).count();
            }
            assert_eq!(offers.join().expect("no panic"), taken);
        }
    }

    #[test]
    fn a_burst_leaves_no_memory_behind() {
        let mailbox = Mailbox::new();
        (0..1000).for_each(|n| assert_eq!(mailbox.offer(n), Ok(())));
        (0..1000).for_each(|n| assert_eq!(mailbox.take(), Some(n)));
        assert!(mailbox.inside().resting.capacity() <= 2 * IN_A_TURN);
    }

    #[test]
    fn what_is_cut_takes_nothing_more() {
        let mailbox = Mailbox::new();
        let one = Arc::new(());
        assert!(mailbox.offer(Arc::clone(&one)).is_ok());
        mailbox.abandon();
        assert_eq!(Arc::strong_count(&one), 1, "it is dropped");
        assert!(mailbox.offer(one).is_err());
    }

    #[test]
    fn what_a_lane_gives_away_counts_for_its_plan() {
        let mailbox = Mailbox::<()>::new();
        mailbox.tell(Step::Observe);
        let (first, _) = mailbox.step().expect("a step");
        mailbox.spend(first, 0.25);
        assert_eq!(mailbox.spent(), Spent { connections: 1, taken: 0.25 });
        mailbox.tell(Step::Observe);
        assert_eq!(mailbox.spent(), Spent::default());
        mailbox.spend(first, 0.25);
        assert_eq!(mailbox.spent(), Spent::default(), "it has not heard of the next plan");
        let transfer = Step::Transfer(Transfer::new(1, Moved::Busy, 0.5));
        mailbox.tell(transfer);
        assert_eq!(mailbox.step(), Some((first + 1, transfer)), "the last step counts");
        assert_eq!(mailbox.step(), None);
    }
}
