//! The known slices of the Service.

use std::collections::BTreeMap;

use super::slice::Slice;

/// Slices by name, up to a limit.
#[derive(Debug)]
pub(crate) struct Store {
    slices: BTreeMap<String, Slice>,
    endpoints: usize,
    limit: usize,
    overflowed: bool,
}

impl Store {
    /// Keeps at most `limit` endpoints, and as many slices.
    pub(crate) fn new(limit: usize) -> Self {
        Self { slices: BTreeMap::new(), endpoints: 0, limit, overflowed: false }
    }

    /// Adds or replaces a slice.
    pub(crate) fn put(&mut self, name: String, slice: Slice) {
        self.remove(&name);
        let endpoints = self.endpoints + slice.endpoints.len();
        if endpoints > self.limit || self.slices.len() >= self.limit {
            self.overflowed = true;
            return;
        }
        self.endpoints = endpoints;
        self.slices.insert(name, slice);
    }

    /// Forgets a slice.
    pub(crate) fn remove(&mut self, name: &str) {
        if let Some(slice) = self.slices.remove(name) {
            self.endpoints -= slice.endpoints.len();
        }
    }

    /// Whether slices were dropped. Only a new list restores them.
    pub(crate) fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// The slices, in the order of their names.
    pub(crate) fn slices(&self) -> impl ExactSizeIterator<Item = &Slice> {
        self.slices.values()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::endpoints::slice::{Endpoint, State};

    fn slice(endpoints: usize) -> Slice {
        let address = IpAddr::from([10, 0, 0, 1]);
        let state = State::Ready;
        let endpoint = Endpoint { address, port: 1, health_port: 1, zone: None, state };
        Slice { endpoints: vec![endpoint; endpoints], left_out: 0 }
    }

    #[test]
    fn what_is_above_the_limit_is_not_kept() {
        let mut store = Store::new(3);
        store.put("a".to_owned(), slice(2));
        store.put("a".to_owned(), slice(3));
        assert!(!store.overflowed());
        store.put("b".to_owned(), slice(1));
        assert!(store.overflowed());
        assert_eq!(store.slices().len(), 1);
        store.remove("a");
        store.put("b".to_owned(), slice(3));
        assert_eq!(store.slices().len(), 1);
    }

    #[test]
    fn empty_slices_are_bounded_too() {
        let mut store = Store::new(1);
        store.put("a".to_owned(), slice(0));
        store.put("b".to_owned(), slice(0));
        assert_eq!((store.slices().len(), store.overflowed()), (1, true));
    }
}
