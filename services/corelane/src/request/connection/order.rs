//! Orders from a lane to its connections.

use std::task::{Context, Poll};

use super::{Activity, Connection};

/// An order to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// End as soon as nothing is in flight (HTTP/2: after GOAWAY).
    Finish,
    /// The client did not complete its header in time, or has disconnected: end now, after a 408 if
    /// a header had begun.
    Expire,
    /// The client does not read its replies: drop them, including the kernel's part.
    Reset,
}

impl Connection {
    /// Gives an order and wakes the connection's task.
    pub(crate) fn tell(&self, order: Order) {
        self.order.set(Some(order));
        if !self.ordered.replace(true) && self.activity.get() == Activity::Idle {
            // The next deadline counts from the order.
            self.touched.set(true);
        }
        self.wake();
    }

    /// Wakes its task.
    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Takes the order, or registers the waker for the next one.
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
