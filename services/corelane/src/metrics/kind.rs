//! Request kinds, which are pairs of a route and a method.

use http::Method;

/// Methods that have their own label. All other methods count as `other`.
pub(crate) const METHODS: [&str; 10] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "other"];

pub(crate) fn method_index(method: &Method) -> usize {
    let known = METHODS.len() - 1;
    METHODS[..known].iter().position(|name| *name == method.as_str()).unwrap_or(known)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KindIndex(u16);

impl KindIndex {
    pub(crate) fn new(route: usize, method: usize) -> Self {
        // At most 577 routes with 10 methods each.
        KindIndex((route * METHODS.len() + method) as u16)
    }

    pub(crate) fn on_route(self, route: usize) -> Self {
        KindIndex::new(route, self.method())
    }

    pub(crate) const fn from_bits(bits: u16) -> Self {
        KindIndex(bits)
    }

    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    pub(crate) fn route(self) -> usize {
        usize::from(self.0) / METHODS.len()
    }

    pub(crate) fn method(self) -> usize {
        usize::from(self.0) % METHODS.len()
    }

    pub(crate) fn method_name(self) -> &'static str {
        METHODS[self.method()]
    }
}
