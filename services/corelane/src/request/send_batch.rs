//! Responses sent in one batch at the end of an event-loop turn.
//!
//! Consecutive sends need less CPU time than sends between reads, probably because the kernel's
//! send path stays in the CPU caches. If only a few connections are ready, a batch saves nothing,
//! so their responses are sent at once.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use crate::base::clock::Tick;

/// Maximum number of responses per turn for which a batch saves nothing.
const FEW: u32 = 8;

const REPLIES: usize = 32;

/// Maximum bytes in a batch.
const BYTES: usize = 32 * 1024;

/// Maximum size of a response that may wait. For larger responses, the system call spends most of
/// its time copying.
pub(crate) const REPLY: usize = 4096;

/// Maximum expected handler time, in nanoseconds, for which a response may wait.
const DELAY: u64 = 100_000;

pub(crate) trait Sender {
    /// Sends a response. The connection's task sends the bytes that the socket does not accept.
    fn send(&self, reply: &[u8]);
}

struct Entry {
    sender: Rc<dyn Sender>,
    /// End position of the response in the batch's bytes.
    end: usize,
}

#[derive(Default)]
struct Replies {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

pub(crate) struct SendBatch {
    replies: RefCell<Replies>,
    is_empty: Cell<bool>,
    turn: Cell<u64>,
    ready: Cell<u32>,
    before: Cell<u32>,
    /// Start of the first handler since a response began to wait.
    since: Cell<Option<Tick>>,
    waker: RefCell<Option<Waker>>,
}

impl SendBatch {
    pub(crate) fn new() -> Self {
        SendBatch {
            replies: RefCell::default(),
            is_empty: Cell::new(true),
            turn: Cell::new(0),
            ready: Cell::new(0),
            before: Cell::new(0),
            since: Cell::new(None),
            waker: RefCell::default(),
        }
    }

    /// Whether the next response should wait, because this turn or the previous turn has many
    /// responses. `turn` changes when the event loop sleeps.
    pub(crate) fn is_worthwhile(&self, turn: u64) -> bool {
        if self.turn.replace(turn) != turn {
            self.before.set(self.ready.take());
        }
        self.ready.set(self.ready.get().saturating_add(1));
        self.ready.get().max(self.before.get()) > FEW
    }

    pub(crate) fn add(&self, sender: Rc<dyn Sender>, reply: &[u8]) {
        let mut replies = self.replies.borrow_mut();
        if replies.entries.len() == REPLIES || replies.bytes.len() + reply.len() > BYTES {
            drop(replies);
            self.flush();
            replies = self.replies.borrow_mut();
        }
        replies.bytes.extend_from_slice(reply);
        let end = replies.bytes.len();
        replies.entries.push(Entry { sender, end });
        if self.is_empty.replace(false) {
            self.since.set(None);
            // The woken task runs after all tasks that are ready now.
            if let Some(waker) = &*self.waker.borrow() {
                waker.wake_by_ref();
            }
        }
    }

    /// Called before a handler that will hold the lane for about `expected` nanoseconds. A response
    /// does not wait for an expensive handler or for many cheap handlers.
    #[inline]
    pub(crate) fn before_handler(&self, now: Tick, expected: u64) {
        if !self.is_empty.get() {
            self.limit_delay(now, expected);
        }
    }

    #[inline(never)]
    fn limit_delay(&self, now: Tick, expected: u64) {
        let since = self.since.get().unwrap_or(now);
        self.since.set(Some(since));
        if now.since(since).saturating_add(expected) > DELAY {
            self.flush();
        }
    }

    pub(crate) fn flush(&self) {
        if self.is_empty.replace(true) {
            return;
        }
        let mut replies = self.replies.take();
        let mut begin = 0;
        for Entry { sender, end } in replies.entries.drain(..) {
            sender.send(&replies.bytes[begin..end]);
            begin = end;
        }
        replies.bytes.clear();
        // The batch is put back to keep its allocated memory.
        self.replies.replace(replies);
    }

    /// Sends the responses at the end of each turn, for as long as the lane runs.
    pub(crate) async fn run(&self) {
        poll_fn(|cx| {
            self.flush();
            self.waker.replace(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await
    }
}

impl fmt::Debug for SendBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendBatch").field("is_empty", &self.is_empty).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Sent(RefCell<Vec<Vec<u8>>>);

    impl Sender for Sent {
        fn send(&self, reply: &[u8]) {
            self.0.borrow_mut().push(reply.to_vec());
        }
    }

    fn batch() -> (SendBatch, Rc<Sent>) {
        (SendBatch::new(), Rc::default())
    }

    #[test]
    fn replies_wait_if_this_turn_or_the_one_before_has_many() {
        let (batch, _) = batch();
        let wait = |turn, replies| (0..replies).filter(|_| batch.is_worthwhile(turn)).count();
        assert_eq!(wait(1, FEW), 0);
        assert_eq!(wait(2, FEW + 3), 3);
        assert_eq!(wait(3, 2), 2);
        assert_eq!(wait(4, 2), 0);
    }

    #[test]
    fn replies_are_sent_in_their_order_and_once() {
        let (batch, sent) = batch();
        batch.add(Rc::clone(&sent) as _, b"first");
        batch.add(Rc::clone(&sent) as _, b"second");
        assert!(sent.0.borrow().is_empty());
        batch.flush();
        batch.flush();
        assert_eq!(sent.0.take(), [&b"first"[..], b"second"]);
        batch.add(Rc::clone(&sent) as _, b"third");
        batch.flush();
        assert_eq!(sent.0.take(), [b"third"]);
    }

    #[test]
    fn a_full_batch_is_sent() {
        for (reply, most) in [(&b"x"[..], REPLIES), (&[b'x'; REPLY], BYTES / REPLY)] {
            let (batch, sent) = batch();
            (0..most).for_each(|_| batch.add(Rc::clone(&sent) as _, reply));
            assert_eq!(sent.0.borrow().len(), 0);
            batch.add(Rc::clone(&sent) as _, reply);
            assert_eq!(sent.0.borrow().len(), most);
        }
    }

    #[test]
    fn replies_do_not_wait_for_handlers_that_take_long() {
        let (batch, sent) = batch();
        let begun = Tick::now();
        batch.add(Rc::clone(&sent) as _, b"reply");
        batch.before_handler(begun, 1_000);
        batch.before_handler(begun.later(20_000), 1_000);
        assert_eq!(sent.0.borrow().len(), 0);
        batch.before_handler(begun.later(20_000), DELAY);
        assert_eq!(sent.0.borrow().len(), 1, "one is expected to take long");
        batch.add(Rc::clone(&sent) as _, b"reply");
        batch.before_handler(begun.later(30_000), 0);
        batch.before_handler(begun.later(30_001 + DELAY), 0);
        assert_eq!(sent.0.borrow().len(), 2, "many took long together");
    }
}
