//! Where a lane's parked connections wait.

use std::cell::RefCell;

use slab::Slab;

use super::Resting;

/// The parked connections of a lane.
#[derive(Debug, Default)]
pub(crate) struct Lot {
    parked: RefCell<Slab<Resting>>,
}

impl Lot {
    pub(crate) fn park(&self, resting: Resting) {
        self.parked.borrow_mut().insert(resting);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parked.borrow().is_empty()
    }
}
