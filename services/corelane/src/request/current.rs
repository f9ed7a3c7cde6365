//! The request that the current thread is processing.

use std::cell::Cell;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use http::HeaderMap;
use scoped_tls::scoped_thread_local;

use crate::base::clock::Tick;
use crate::message::request_id::{Id, RequestId};
use crate::message::trace_context::TraceContext;
use crate::request::client::ConnectionInfo;
use crate::request::connection::Connection;
use crate::request::record::RequestRecord;

thread_local! {
    /// When the request of the current handler began, and its timeout.
    static CURRENT: Cell<Option<(Tick, Duration)>> = const { Cell::new(None) };
    /// The request record of that request, on loan to this thread.
    static TRAIL: Cell<Option<Box<RequestRecord>>> = const { Cell::new(None) };
}

scoped_thread_local! {
    /// The connection of the request whose handler runs.
    static CONNECTION: Connection
}

/// The connection of the current request: the addresses of both ends, the protocol, and TLS. `None`
/// where [`deadline`] is.
///
/// It is put together when this is called, with a system call for the local address; a service that
/// does not call this pays nothing for it.
///
/// ```
/// assert!(corelane::connection().is_none());
/// ```
pub fn connection() -> Option<ConnectionInfo> {
    CONNECTION.is_set().then(|| CONNECTION.with(Connection::info))
}

/// The IP address of the client of the current request, whose headers these are. Without
/// [`Builder::trusted_proxies`](crate::Builder::trusted_proxies), or if the peer is not one of them,
/// it is that of [`ConnectionInfo::peer`](crate::ConnectionInfo::peer). Otherwise it is the last
/// address in the chosen header ([`Builder::forwarded_header`](crate::Builder::forwarded_header))
/// that is not a trusted proxy, or the first if all are. The search ends at what is not an IP
/// address, with or without a port, and the address to the right of it is returned.
///
/// An address of IPv4 is returned as such, even where a socket for both versions shows it as one of
/// IPv6. `None` where [`deadline`] is, and for a client of a Unix socket that is not trusted.
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
    let found = || CONNECTION.with(|connection| connection.client_addr(headers));
    CONNECTION.is_set().then(found).flatten()
}

/// Runs `poll` with the connection of a request as the current one.
pub(crate) fn over<T>(connection: &Connection, poll: impl FnOnce() -> T) -> T {
    CONNECTION.set(connection, poll)
}

/// The deadline of the current request: [`Timeouts::request`](crate::Timeouts::request) after its
/// header arrived. Its handler is dropped then. `None` outside a handler, including in a task that the
/// handler spawned.
///
/// A handler that calls other services should pass on the remaining time. A handler that computes for
/// a long time should check the deadline: code that does not wait cannot be interrupted.
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
    CURRENT.get().and_then(|(begun, allowed)| Instant::from(begun).checked_add(allowed))
}

/// The id of the current request, in its handler, the body of its reply, or a
/// [`blocking`](crate::blocking) call of either. `None` elsewhere, including in a task that the
/// handler spawned, and without [`Builder::request_ids`](crate::Builder::request_ids).
///
/// ```
/// assert!(corelane::request_id().is_none());
/// ```
pub fn request_id() -> Option<RequestId> {
    peek(|request_record| request_record.id.as_ref().map(Id::id))
}

/// The trace context of the current request, to be passed on to other services. `None` where
/// [`request_id`] is, for a request that belongs to no trace, and without
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
    let peeked = TRAIL.try_with(|lent| {
        let request_record = lent.take()?;
        let found = read(&request_record);
        lent.set(Some(request_record));
        found
    });
    peeked.ok().flatten()
}

/// Runs `poll` with the request that began at `begun` as the current one.
pub(crate) fn within<T>(
    begun: Tick,
    allowed: Duration,
    request_record: &Cell<Option<Box<RequestRecord>>>,
    poll: impl FnOnce() -> T,
) -> T {
    let _restored = Restored(CURRENT.replace(Some((begun, allowed))));
    lending(request_record, poll)
}

/// Runs `poll` with `request_record` available to [`request_id`] and [`trace_context`].
pub(crate) fn lending<T>(
    request_record: &Cell<Option<Box<RequestRecord>>>,
    poll: impl FnOnce() -> T,
) -> T {
    let Some(lent) = request_record.take() else { return poll() };
    let _lent = Lent { request_record, before: TRAIL.replace(Some(lent)) };
    poll()
}

/// Restores the previous value, also after a panic.
struct Restored(Option<(Tick, Duration)>);

impl Drop for Restored {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Returns a request record, also after a panic.
struct Lent<'a> {
    request_record: &'a Cell<Option<Box<RequestRecord>>>,
    before: Option<Box<RequestRecord>>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.request_record.set(TRAIL.replace(self.before.take()));
    }
}

/// The parts of the current request that another thread needs.
pub(crate) fn named() -> Option<Box<RequestRecord>> {
    peek(|request_record| Some(request_record.named()))
}

/// Sets the current request of another thread until it is dropped.
#[derive(Debug)]
pub(crate) struct OnBehalf(());

impl OnBehalf {
    pub(crate) fn of(request_record: Option<Box<RequestRecord>>) -> OnBehalf {
        TRAIL.set(request_record);
        OnBehalf(())
    }
}

impl Drop for OnBehalf {
    fn drop(&mut self) {
        TRAIL.set(None);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use http::Version;

    use super::*;
    use crate::metrics::kind::KindIndex;

    #[test]
    fn after_a_panic_nothing_of_the_request_is_left() {
        let begun = Tick::now();
        let mut request_record = RequestRecord::new(KindIndex::new(0, 0), Version::HTTP_11, begun);
        request_record.id = Some(Id::Made([7; 16]));
        let request_record = Cell::new(Some(Box::new(request_record)));
        let panicking = || {
            within(begun, Duration::from_secs(1), &request_record, || {
                assert!(request_id().is_some() && deadline().is_some());
                std::panic::resume_unwind(Box::new("a panic"));
            });
        };
        assert!(catch_unwind(AssertUnwindSafe(panicking)).is_err());
        assert!(request_id().is_none() && deadline().is_none());
        assert!(request_record.take().is_some());
    }
}
