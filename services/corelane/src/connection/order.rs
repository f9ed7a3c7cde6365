//! How a lane tells a connection to end.

use std::task::{Context, Poll};

use super::{Activity, Connection};

/// What a lane tells a connection to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// End as soon as nothing is in flight (HTTP/2: after GOAWAY).
    Finish,
    /// The client did not send its header in time, or is not there any more: end now, with 408
    /// where a header had begun.
    Expire,
    /// The client takes nothing of its replies: drop them, and what the kernel holds of them.
    Reset,
}

impl Connection {
    /// Gives an order and wakes the connection's task.
    pub(crate) fn tell(&self, order: Order) {
        self.order.set(Some(order));
        if !self.told.replace(true) && self.activity.get() == Activity::Idle {
            // What is due next counts from the order.
            self.touched.set(true);
        }
        self.wake();
    }

    /// Has its task polled.
    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Takes an order, or arranges to be woken by the next.
    pub(crate) fn poll_order(&self, cx: &mut Context<'_>) -> Poll<Order> {
        if let Some(order) = self.order.take() {
            return Poll::Ready(order);
        }
        let mut waker = self.waker.borrow_mut();
        match waker.as_ref() {
            Some(old) if old.will_wake(cx.waker()) => {}
            _ => *waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}
