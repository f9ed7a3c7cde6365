//! The current thread's request.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use scoped_tls::scoped_thread_local;
use tokio::task::yield_now;

use crate::base::clock::{Millis, Tick};
use crate::message::request_id::{Id, RequestId};
use crate::message::trace_context::TraceContext;
use crate::metrics::RequestRefusal;
use crate::metrics::kind::KindIndex;
use crate::request::body_watch::BodyWatch;
use crate::request::client::ConnectionInfo;
use crate::request::connection::Connection;
use crate::request::offload::Facts;
use crate::request::record::RequestRecord;

pub(crate) trait CurrentRequest {
    fn info(&self) -> ConnectionInfo;

    fn client_addr(&self, headers: &HeaderMap) -> Option<IpAddr>;

    fn deadline(&self) -> Option<Instant>;

    fn route(&self) -> String;

    fn set_route(&self, template: &str);

    /// Time since the current poll of the handler began.
    fn held(&self) -> Option<Duration>;

    fn set_limits(&self, body_bytes: Option<u64>, allowed: Option<Duration>);

    /// Records the reason why the route's limits reject the request.
    fn refuse(&self, reason: RequestRefusal);
}

#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) connection: Rc<Connection>,
    pub(crate) begun: Tick,
    /// Time from `begun` for which the caller waits.
    pub(crate) remaining: Millis,
    /// Maximum time from `begun` to the response head.
    pub(crate) allowed: Cell<Millis>,
    pub(crate) kind: Cell<KindIndex>,
    pub(crate) refused: Cell<Option<RequestRefusal>>,
    /// The watch and key of the request's body, if part of the body was unread when the request
    /// began.
    pub(crate) body: Option<(usize, Arc<BodyWatch>)>,
}

impl Current {
    pub(super) fn facts(&self) -> Facts {
        let (connection, lane) = (&self.connection, self.connection.lane());
        Facts {
            info: connection.info(),
            ip: connection.client.ip(),
            trust: Arc::clone(&lane.trust),
            routes: Arc::clone(lane.routes.all()),
            begun: self.begun,
            remaining: self.remaining,
            kind: self.kind.get(),
            body: self.body.as_ref().map(|(_, watch)| Arc::clone(watch)),
        }
    }
}

impl CurrentRequest for Current {
    fn info(&self) -> ConnectionInfo {
        self.connection.info()
    }

    fn client_addr(&self, headers: &HeaderMap) -> Option<IpAddr> {
        self.connection.client_addr(headers)
    }

    fn deadline(&self) -> Option<Instant> {
        Instant::from(self.begun).checked_add(self.allowed.get().into())
    }

    fn route(&self) -> String {
        self.connection.lane().routes.name(self.kind.get().route()).to_owned()
    }

    fn set_route(&self, template: &str) {
        let before = self.kind.get();
        let route = self.connection.lane().routes.settle(before.route(), template);
        if route != before.route() {
            self.kind.set(before.on_route(route));
            // If this poll then blocks the lane, the watchdog and `/lanes` show the new name.
            self.connection.lane().shared().running.rename(self.kind.get());
        }
    }

    fn held(&self) -> Option<Duration> {
        let running = self.connection.lane().shared().running.get(Instant::now());
        running.map(|(_, held)| held)
    }

    fn set_limits(&self, body_bytes: Option<u64>, allowed: Option<Duration>) {
        if let Some(allowed) = allowed {
            self.allowed.set(self.remaining.min(allowed.into()));
        }
        if let (Some(bytes), Some((_, body))) = (body_bytes, &self.body) {
            body.set_limit(bytes);
        }
    }

    fn refuse(&self, reason: RequestRefusal) {
        self.refused.set(Some(reason));
    }
}

scoped_thread_local! {
    /// The request that this lane is handling.
    static CURRENT: Current
}

scoped_thread_local! {
    /// The request that this thread is handling for another thread's lane.
    static HANDED_OVER: Rc<dyn CurrentRequest>
}

thread_local! {
    static CURRENT_RECORD: Cell<Option<Box<RequestRecord>>> = const { Cell::new(None) };
}

#[inline]
fn read<T>(read: impl FnOnce(&dyn CurrentRequest) -> T) -> Option<T> {
    if CURRENT.is_set() {
        return Some(CURRENT.with(|current| read(current)));
    }
    HANDED_OVER.is_set().then(|| HANDED_OVER.with(|current| read(&**current)))
}

/// The current request's connection: the addresses of both ends, the protocol, and TLS. Returns
/// `None` wherever [`deadline`] returns `None`.
///
/// Each call assembles the result and makes a system call for the local address. Services that
/// never call this function pay nothing.
///
/// ```
/// assert!(corelane::connection().is_none());
/// ```
pub fn connection() -> Option<ConnectionInfo> {
    read(|current| current.info())
}

/// The client's IP address, determined from the current request and its headers. Without
/// [`Builder::trusted_proxies`](crate::Builder::trusted_proxies), or if the peer is not a trusted
/// proxy, it is [`ConnectionInfo::peer`](crate::ConnectionInfo::peer). Otherwise it is the last
/// address in the configured header
/// ([`Builder::forwarded_header`](crate::Builder::forwarded_header)) that is not a trusted proxy,
/// or the first address if all addresses are trusted. The search stops at an entry that is not an
/// IP address, with or without a port, and returns the address to its right.
///
/// IPv4 addresses are returned as IPv4, even if a dual-stack socket shows them as IPv6. `None`
/// wherever [`deadline`] is `None`, and for a client on an untrusted Unix socket.
///
/// ```
/// use std::net::IpAddr;
///
/// use http::HeaderMap;
///
/// async fn handler(headers: HeaderMap) -> String {
///     match corelane::client_addr(&headers) {
///         Some(address) => format!("hello, {address}"),
///         None => "hello, neighbour".to_owned(),
///     }
/// }
/// assert_eq!(corelane::client_addr(&HeaderMap::new()), None);
/// ```
pub fn client_addr(headers: &HeaderMap) -> Option<IpAddr> {
    read(|current| current.client_addr(headers)).flatten()
}

/// The current request's deadline: [`Timeouts::request`](crate::Timeouts::request) after its header
/// arrived, or the time in [`RouteLimits`](crate::RouteLimits). A caller that waits for less time
/// says so in `x-envoy-expected-rq-timeout-ms`, which may only shorten that time. The server reads
/// it with [`Builder::request_ids`](crate::Builder::request_ids),
/// [`traces`](crate::Builder::traces) or an observer. When the deadline passes, the handler is
/// dropped. `None` outside a handler, including in a task that the handler spawned.
///
/// When you call other services with `corelane-client`, it passes on the remaining time. Check the
/// deadline in long computations, because code that does not wait cannot be interrupted.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// async fn handler() -> String {
///     let left = corelane::deadline().map(|at| at.saturating_duration_since(Instant::now()));
///     format!("{:?} left", left.unwrap_or(Duration::MAX))
/// }
/// assert_eq!(corelane::deadline(), None);
/// ```
pub fn deadline() -> Option<Instant> {
    read(|current| current.deadline()).flatten()
}

/// Names the route of the current request by its template, such as `/div/{n}`, in the syntax of
/// axum and [`Builder::routes`](crate::Builder::routes). Call it before the response head is ready,
/// in the handler or in a router or layer around it. Elsewhere, it has no effect.
///
/// Metrics, logs and the load table record the request under this template. The lane learns the
/// template, so it knows the cost of later requests with a matching path before it calls their
/// handlers. Pass only templates, never paths: the server learns at most
/// [`Builder::learnt_routes`](crate::Builder::learnt_routes) templates. A request that matches a
/// template of [`Builder::routes`](crate::Builder::routes) keeps that template.
///
/// ```
/// async fn divide(path: &str) -> String {
///     corelane::set_route("/div/{n}");
///     format!("divided {path}")
/// }
/// ```
pub fn set_route(template: &str) {
    read(|current| current.set_route(template));
}

/// The current request's route template, available in its handler: a template from
/// [`Builder::routes`](crate::Builder::routes) or [`set_route`], or `other`. `None` elsewhere.
///
/// ```
/// assert!(corelane::route().is_none());
/// ```
pub fn route() -> Option<String> {
    read(|current| current.route())
}

/// Time that a handler may hold its lane before [`turn`] yields.
const TURN: Duration = Duration::from_micros(100);

/// Yields the lane to other requests if this poll of the handler has held it for more than 100 µs.
/// Otherwise, it returns at once and costs one clock read.
///
/// Call it in loops that compute. The handler then never blocks its lane for long, so its requests
/// stay on the lane no matter how much they compute. Outside a handler, for example in a task that
/// the handler spawned, it always yields.
///
/// ```
/// async fn sum(numbers: &[u64]) -> u64 {
///     let mut sum = 0;
///     for part in numbers.chunks(4096) {
///         sum += part.iter().sum::<u64>();
///         corelane::turn().await;
///     }
///     sum
/// }
/// ```
pub async fn turn() {
    if read(|current| current.held()).flatten().is_none_or(|held| held > TURN) {
        yield_now().await;
    }
}

/// Changes the current request's limits, if there is a current request.
pub(super) fn set_limits(body_bytes: Option<u64>, allowed: Option<Duration>) {
    read(|current| current.set_limits(body_bytes, allowed));
}

pub(super) fn refuse(reason: RequestRefusal) {
    read(|current| current.refuse(reason));
}

/// The current request's id, available in its handler, in its response body, and in a
/// [`blocking`](crate::blocking) call that the handler or the body makes. `None` elsewhere,
/// including in a task that the handler spawned, and without
/// [`Builder::request_ids`](crate::Builder::request_ids).
///
/// ```
/// assert!(corelane::request_id().is_none());
/// ```
pub fn request_id() -> Option<RequestId> {
    peek(|request_record| request_record.id.as_ref().map(Id::id))
}

/// The current request's trace context, which the handler passes on to other services. `None`
/// wherever [`request_id`] is `None`, for untraced requests, and without
/// [`Builder::traces`](crate::Builder::traces).
///
/// ```
/// assert!(corelane::trace_context().is_none());
/// ```
pub fn trace_context() -> Option<TraceContext> {
    peek(|request_record| request_record.trace.clone())
}

fn peek<T>(read: impl FnOnce(&RequestRecord) -> Option<T>) -> Option<T> {
    // Logging may run while the thread-local is being destroyed.
    let peeked = CURRENT_RECORD.try_with(|lent| {
        let request_record = lent.take()?;
        let found = read(&request_record);
        lent.set(Some(request_record));
        found
    });
    peeked.ok().flatten()
}

#[inline]
pub(crate) fn within<T>(
    current: &Current,
    request_record: &Cell<Option<Box<RequestRecord>>>,
    poll: impl FnOnce() -> T,
) -> T {
    CURRENT.set(current, || lending(request_record, poll))
}

pub(crate) fn within_handed_over<T>(
    current: &Rc<dyn CurrentRequest>,
    request_record: &Cell<Option<Box<RequestRecord>>>,
    poll: impl FnOnce() -> T,
) -> T {
    HANDED_OVER.set(current, || lending(request_record, poll))
}

pub(crate) fn lending<T>(
    request_record: &Cell<Option<Box<RequestRecord>>>,
    poll: impl FnOnce() -> T,
) -> T {
    let Some(lent) = request_record.take() else { return poll() };
    let _lent = Lent { request_record, before: CURRENT_RECORD.replace(Some(lent)) };
    poll()
}

/// Returns a request record when dropped, even after a panic.
struct Lent<'a> {
    request_record: &'a Cell<Option<Box<RequestRecord>>>,
    before: Option<Box<RequestRecord>>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.request_record.set(CURRENT_RECORD.replace(self.before.take()));
    }
}

pub(crate) fn named() -> Option<Box<RequestRecord>> {
    peek(|request_record| Some(request_record.named()))
}

pub(crate) fn named_of(
    request_record: &Cell<Option<Box<RequestRecord>>>,
) -> Option<Box<RequestRecord>> {
    lending(request_record, named)
}

/// Makes another thread's request the current request until this guard is dropped.
#[derive(Debug)]
pub(crate) struct OnBehalf(());

impl OnBehalf {
    pub(crate) fn of(request_record: Option<Box<RequestRecord>>) -> OnBehalf {
        CURRENT_RECORD.set(request_record);
        OnBehalf(())
    }
}

impl Drop for OnBehalf {
    fn drop(&mut self) {
        CURRENT_RECORD.set(None);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use http::Version;

    use super::*;

    #[test]
    fn after_a_panic_nothing_of_the_request_is_left() {
        let begun = Tick::now();
        let kind = KindIndex::new(0, 0);
        let mut request_record = RequestRecord::new(kind, Version::HTTP_11, begun);
        request_record.id = Some(Id::Made([7; 16]));
        let request_record = Cell::new(Some(Box::new(request_record)));
        let panicking = || {
            lending(&request_record, || {
                assert!(request_id().is_some());
                std::panic::resume_unwind(Box::new("a panic"));
            });
        };
        assert!(catch_unwind(AssertUnwindSafe(panicking)).is_err());
        assert!(request_id().is_none());
        assert!(request_record.take().is_some());
    }
}
