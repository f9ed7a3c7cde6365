//! Known slices of a Service.

use std::collections::BTreeMap;

use super::slice::Slice;

#[derive(Clone, Debug)]
pub(crate) struct Store {
    slices: BTreeMap<String, Known>,
    endpoints: usize,
    limit: usize,
    overflowed: bool,
    list: u64,
}

#[derive(Clone, Debug)]
struct Known {
    slice: Slice,
    list: u64,
}

impl Store {
    pub(crate) fn new(limit: usize) -> Self {
        Self { slices: BTreeMap::new(), endpoints: 0, limit, overflowed: false, list: 0 }
    }

    /// Adds or replaces a slice unless the limit forbids it. Returns whether the slice was stored.
    /// A rejected update keeps the previous endpoints, which may still serve.
    pub(crate) fn put(&mut self, name: String, slice: Slice) -> bool {
        let list = self.list;
        let former = self.slices.get(&name).map(|it| it.slice.endpoints.len());
        let endpoints = self.endpoints - former.unwrap_or(0) + slice.endpoints.len();
        let has_place = former.is_some() || self.slices.len() < self.limit;
        if has_place && endpoints <= self.limit {
            self.endpoints = endpoints;
            self.slices.insert(name, Known { slice, list });
            return true;
        }
        self.overflowed = true;
        if let Some(known) = self.slices.get_mut(&name) {
            known.list = list;
        }
        false
    }

    /// A store for a new list. It starts with the known slices so that slices beyond the limit do
    /// not displace them.
    pub(crate) fn relist(&self) -> Self {
        Self { overflowed: false, list: self.list + 1, ..self.clone() }
    }

    /// Forgets slices that were missing from the list. Returns whether there were any.
    pub(crate) fn finish_list(&mut self) -> bool {
        let (before, list) = (self.slices.len(), self.list);
        self.slices.retain(|_, known| known.list == list);
        self.endpoints = self.slices().map(|slice| slice.endpoints.len()).sum();
        self.slices.len() < before
    }

    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let known = self.slices.remove(name);
        self.endpoints -= known.as_ref().map_or(0, |known| known.slice.endpoints.len());
        known.is_some()
    }

    /// Whether slices were left out for lack of room. Only a new list can admit these slices.
    pub(crate) fn overflowed(&self) -> bool {
        self.overflowed
    }

    pub(crate) fn slices(&self) -> impl ExactSizeIterator<Item = &Slice> {
        self.slices.values().map(|known| &known.slice)
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

    fn sizes(store: &Store) -> Vec<usize> {
        store.slices().map(|slice| slice.endpoints.len()).collect()
    }

    #[test]
    fn what_is_above_the_limit_is_not_taken() {
        let mut store = Store::new(3);
        assert!(store.put("a".to_owned(), slice(2)));
        assert!(store.put("a".to_owned(), slice(3)));
        assert!(!store.overflowed());
        assert!(!store.put("b".to_owned(), slice(1)));
        assert!(store.overflowed());
        assert_eq!(sizes(&store), [3]);
        store.remove("a");
        assert!(store.put("b".to_owned(), slice(3)));
        assert_eq!(sizes(&store), [3]);
    }

    #[test]
    fn a_slice_that_grows_above_the_limit_keeps_its_endpoints() {
        let mut store = Store::new(4);
        store.put("a".to_owned(), slice(2));
        store.put("b".to_owned(), slice(2));
        assert!(!store.put("a".to_owned(), slice(3)));
        assert!(store.overflowed());
        assert_eq!(sizes(&store), [2, 2]);
        // A slice that shrinks makes room for others.
        assert!(store.put("b".to_owned(), slice(1)));
        assert!(store.put("a".to_owned(), slice(3)));
        assert_eq!(sizes(&store), [3, 1]);
    }

    #[test]
    fn a_list_above_the_limit_keeps_the_known_slices() {
        let mut store = Store::new(4);
        for name in ["b", "c", "d"] {
            store.put(name.to_owned(), slice(1));
        }
        let mut store = store.relist();
        assert!(!store.overflowed());
        for (name, endpoints, taken) in [("a", 2, false), ("b", 1, true), ("c", 3, false)] {
            assert_eq!(store.put(name.to_owned(), slice(endpoints)), taken, "{name}");
        }
        assert!(store.finish_list(), "d is gone");
        assert_eq!((sizes(&store), store.overflowed()), (vec![1, 1], true));
        // Now there is room for the slice.
        let mut store = store.relist();
        for (name, endpoints) in [("a", 2), ("b", 1), ("c", 1)] {
            assert!(store.put(name.to_owned(), slice(endpoints)), "{name}");
        }
        assert!(!store.finish_list());
        assert_eq!((sizes(&store), store.overflowed()), (vec![2, 1, 1], false));
    }

    #[test]
    fn empty_slices_are_bounded_too() {
        let mut store = Store::new(1);
        store.put("a".to_owned(), slice(0));
        store.put("b".to_owned(), slice(0));
        assert_eq!((store.slices().len(), store.overflowed()), (1, true));
    }
}
