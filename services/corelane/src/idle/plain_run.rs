//! Decides when a connection returns from hyper to the fast path.
//!
//! hyper takes about three times as long for a plain request, and a connection goes to hyper at its
//! first request that is not plain. Most clients that send one such request send many. So a
//! connection returns after several requests in a row that would have been plain. Each return that
//! turns out wrong doubles that number: if a client's heads arrive in pieces, all its requests are
//! for hyper.

use std::cell::Cell;

/// Plain requests in a row before a connection returns.
const ENOUGH: u8 = 4;

/// The maximum of that number, after repeated returns in vain.
const MOST: u8 = 128;

/// Counts the plain requests of a connection that hyper serves.
#[derive(Debug)]
pub(crate) struct PlainRun {
    /// Current number in a row.
    length: Cell<u8>,
    enough: Cell<u8>,
    /// Requests served when the connection returned, if it did.
    returned: Cell<Option<u64>>,
}

impl PlainRun {
    pub(crate) fn new() -> Self {
        PlainRun { length: Cell::new(0), enough: Cell::new(ENOUGH), returned: Cell::new(None) }
    }

    /// hyper has read a request. `plain`: the fast path could have served it.
    pub(crate) fn add(&self, plain: bool) {
        self.length.set(if plain { self.length.get().saturating_add(1) } else { 0 });
    }

    /// Its reply could not have been sent by the fast path.
    pub(crate) fn end(&self) {
        self.length.set(0);
    }

    /// Whether the connection may return.
    pub(crate) fn is_enough(&self) -> bool {
        self.length.get() >= self.enough.get()
    }

    /// The connection returns after `served` requests.
    pub(crate) fn set_returned(&self, served: u64) {
        self.length.set(0);
        self.returned.set(Some(served));
    }

    /// The connection goes to hyper after `served` requests.
    pub(crate) fn hand_over(&self, served: u64) {
        let Some(returned) = self.returned.take() else { return };
        let in_vain = served - returned < u64::from(ENOUGH);
        let enough = if in_vain { self.enough.get().saturating_mul(2) } else { ENOUGH };
        self.enough.set(enough.min(MOST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(run: &PlainRun, plain: bool) -> u8 {
        let mut many = 0;
        while !run.is_enough() && many < u8::MAX {
            run.add(plain);
            many += 1;
        }
        many
    }

    #[test]
    fn a_connection_returns_after_some_plain_requests_in_a_row() {
        let run = PlainRun::new();
        (1..ENOUGH).for_each(|_| run.add(true));
        run.add(false);
        assert_eq!(requests(&run, true), ENOUGH);
        run.end();
        assert_eq!(requests(&run, true), ENOUGH, "so it is where a reply is not plain");
        run.end();
        assert_eq!(requests(&run, false), u8::MAX);
    }

    #[test]
    fn one_that_returned_in_vain_waits_for_longer() {
        let run = PlainRun::new();
        for wanted in [4, 8, 16, 32, 64, 128, 128] {
            assert_eq!(requests(&run, true), wanted);
            run.set_returned(100);
            run.hand_over(101);
        }
        requests(&run, true);
        run.set_returned(100);
        run.hand_over(104);
        assert_eq!(requests(&run, true), ENOUGH, "it paid");
    }
}
