//! What a handler on a slow lane can learn and change of its request.
//!
//! The connection of the request stays with its lane, on another thread, so the handler gets a copy.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use atomic_waker::AtomicWaker;
use http::HeaderMap;
use scoped_tls::scoped_thread_local;

use crate::base::clock::Tick;
use crate::message::forwarded::Trust;
use crate::metrics::RequestRefusal;
use crate::metrics::kind::KindIndex;
use crate::request::body_watch::BodyWatch;
use crate::request::client::ConnectionInfo;
use crate::request::routes::Routes;

/// What the lane and the slow lane share of a request.
#[derive(Debug)]
pub(crate) struct Link {
    /// Longest time from the header to the head of the reply, in milliseconds.
    allowed: AtomicU64,
    /// The task of the lane that waits for the answer.
    pub(crate) lane: AtomicWaker,
}

impl Link {
    pub(crate) fn new(allowed: Duration) -> Self {
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

/// A copy of what the lane has of the current request.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) info: ConnectionInfo,
    /// The client's address, as far as the connection tells.
    pub(crate) ip: Option<IpAddr>,
    pub(crate) trust: Arc<Trust>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) begun: Tick,
    pub(crate) kind: KindIndex,
    pub(crate) body: Option<Arc<BodyWatch>>,
    pub(crate) link: Arc<Link>,
    /// When the handler's current poll began.
    pub(crate) polled: Cell<Tick>,
    /// The template that the handler named, if it differs from that of the kind.
    pub(crate) route: RefCell<Option<Box<str>>>,
    pub(crate) refused: Cell<Option<RequestRefusal>>,
}

scoped_thread_local! {
    /// The request whose handler runs on this slow lane.
    static GUEST: Guest
}

impl Guest {
    /// Runs `poll` with this as the current request.
    pub(crate) fn within<T>(&self, poll: impl FnOnce() -> T) -> T {
        GUEST.set(self, poll)
    }

    /// What the handler changed: the template of its route, and why the limits of that reject it.
    pub(crate) fn changes(&self) -> (Option<Box<str>>, Option<RequestRefusal>) {
        (self.route.take(), self.refused.get())
    }

    pub(crate) fn info(&self) -> ConnectionInfo {
        self.info.clone()
    }

    pub(crate) fn client_addr(&self, headers: &HeaderMap) -> Option<IpAddr> {
        self.trust.client(self.ip, headers)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        Instant::from(self.begun).checked_add(self.link.allowed())
    }

    pub(crate) fn route(&self) -> String {
        let named = self.route.borrow();
        named.as_deref().unwrap_or_else(|| self.routes.name(self.kind.route())).to_owned()
    }

    pub(crate) fn set_route(&self, template: &str) {
        let known = self.routes.name(self.kind.route()) == template;
        self.route.replace((!known).then(|| template.into()));
    }

    pub(crate) fn set_limits(&self, body_bytes: Option<u64>, allowed: Option<Duration>) {
        if let Some(allowed) = allowed {
            self.link.allow(allowed);
        }
        if let (Some(bytes), Some(body)) = (body_bytes, &self.body) {
            body.set_limit(bytes);
        }
    }

    pub(crate) fn refuse(&self, reason: RequestRefusal) {
        self.refused.set(Some(reason));
    }

    /// Time since the current poll of its handler began.
    pub(crate) fn held(&self) -> Duration {
        Duration::from_nanos(Tick::now().since(self.polled.get()))
    }
}

/// Reads the request whose handler runs on this thread, if it is that of a slow lane.
pub(crate) fn read<T>(read: impl FnOnce(&Guest) -> T) -> Option<T> {
    GUEST.is_set().then(|| GUEST.with(read))
}
