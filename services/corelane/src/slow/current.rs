//! The parts of a request that a handler on a slow lane may read and change.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use atomic_waker::AtomicWaker;
use http::HeaderMap;

use crate::base::clock::Tick;
use crate::metrics::RequestRefusal;
use crate::request::client::ConnectionInfo;
use crate::request::current::CurrentRequest;
use crate::request::offload::Facts;

#[derive(Debug)]
pub(crate) struct Link {
    /// Maximum time from the header to the response head, in milliseconds.
    allowed: AtomicU64,
    pub(crate) lane: AtomicWaker,
}

impl Link {
    fn new(allowed: Duration) -> Self {
        Link { allowed: AtomicU64::new(allowed.as_millis() as u64), lane: AtomicWaker::new() }
    }

    pub(crate) fn allowed(&self) -> Duration {
        Duration::from_millis(self.allowed.load(Ordering::Acquire))
    }

    fn allow(&self, allowed: Duration) {
        self.allowed.store(allowed.as_millis() as u64, Ordering::Release);
        self.lane.wake();
    }
}

#[derive(Debug)]
pub(crate) struct FarRequest {
    facts: Facts,
    pub(super) link: Arc<Link>,
    pub(super) polled: Cell<Tick>,
    /// The template named by the handler, if it differs from the kind's template.
    route: RefCell<Option<Box<str>>>,
    refused: Cell<Option<RequestRefusal>>,
}

impl FarRequest {
    pub(super) fn new(facts: Facts, allowed: Duration) -> Self {
        FarRequest {
            link: Arc::new(Link::new(allowed)),
            polled: Cell::new(facts.begun),
            route: RefCell::default(),
            refused: Cell::new(None),
            facts,
        }
    }

    /// The handler's changes: the route template, and the reason why that route's limits reject the
    /// request.
    pub(super) fn changes(&self) -> (Option<Box<str>>, Option<RequestRefusal>) {
        (self.route.take(), self.refused.get())
    }

    fn known_route(&self) -> &str {
        self.facts.routes.name(self.facts.kind.route())
    }
}

impl CurrentRequest for FarRequest {
    fn info(&self) -> ConnectionInfo {
        self.facts.info.clone()
    }

    fn client_addr(&self, headers: &HeaderMap) -> Option<IpAddr> {
        self.facts.trust.client(self.facts.ip, headers)
    }

    fn deadline(&self) -> Option<Instant> {
        Instant::from(self.facts.begun).checked_add(self.link.allowed())
    }

    fn route(&self) -> String {
        self.route.borrow().as_deref().unwrap_or_else(|| self.known_route()).to_owned()
    }

    fn set_route(&self, template: &str) {
        let is_new = self.known_route() != template;
        self.route.replace(is_new.then(|| template.into()));
    }

    fn held(&self) -> Option<Duration> {
        Some(Duration::from_nanos(Tick::now().since(self.polled.get())))
    }

    fn set_limits(&self, body_bytes: Option<u64>, allowed: Option<Duration>) {
        if let Some(allowed) = allowed {
            self.link.allow(allowed.min(self.facts.remaining.into()));
        }
        if let (Some(bytes), Some(body)) = (body_bytes, &self.facts.body) {
            body.set_limit(bytes);
        }
    }

    fn refuse(&self, reason: RequestRefusal) {
        self.refused.set(Some(reason));
    }
}
