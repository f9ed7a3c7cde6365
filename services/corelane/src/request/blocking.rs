//! Runs blocking code without stopping the lane.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::thread;

use rustix::thread::{sched_getaffinity, sched_setaffinity};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::base::settings::Limits;
use crate::load::activity::Calls;
use crate::load::lane::Lane;
use crate::metrics::RequestRefusal;
use crate::request::current::{self, OnBehalf};

thread_local! {
    static POOL: RefCell<Option<Pool>> = const { RefCell::new(None) };
}

/// Limits a lane's blocking threads, which are part of its tokio runtime.
#[derive(Debug)]
pub(crate) struct Pool {
    lane: Lane,
    allowed: u64,
    /// Set on a slow lane's thread: passes calls to the lane, which runs them.
    relay: Option<Relay>,
}

pub(crate) type RelayedCall = Box<dyn FnOnce() + Send>;

/// Passes a slow lane's calls to its lane. Threads started by a slow lane inherit its priority,
/// which is too low for calls that may hold a lock.
pub(crate) type Relay = UnboundedSender<RelayedCall>;

pub(crate) async fn relay(mut calls: UnboundedReceiver<RelayedCall>) {
    while let Some(call) = calls.recv().await {
        spawn_blocking(call);
    }
}

impl Pool {
    pub(crate) fn new(lane: Lane, limits: &Limits, relay: Option<Relay>) -> Self {
        let allowed = limits.blocking_threads.saturating_add(limits.blocking_queue) as u64;
        Pool { lane, allowed, relay }
    }

    pub(crate) fn enter(self) {
        POOL.set(Some(self));
    }

    /// Admits a call if there is room.
    fn admit(&self) -> Option<Call> {
        let shared = self.lane.shared();
        if shared.calls.try_begin(self.allowed) {
            return Some(Call { state: AtomicU8::new(0), calls: Arc::clone(&shared.calls) });
        }
        match self.relay {
            None => shared.metrics.refuse_request(RequestRefusal::PoolFull),
            Some(_) => shared.metrics.slow_pool_full.add(1),
        }
        None
    }
}

/// Lets a thread started by a pinned lane run on any CPU of the process, so that blocking work uses
/// an idle CPU. The main thread is never pinned.
pub(crate) fn unpin_current_thread() {
    let everywhere = sched_getaffinity(Some(rustix::process::getpid()));
    if let Err(error) = everywhere.and_then(|cpus| sched_setaffinity(None, &cpus)) {
        tracing::debug!(%error, "cannot unpin a blocking thread from the CPU of its lane");
    }
}

/// Runs `work`, which may block or compute for a long time, on a thread of this lane's pool, while
/// the lane serves other requests.
///
/// A lane has at most [`Limits::blocking_threads`](crate::Limits::blocking_threads) such threads,
/// which are not pinned, and up to [`Limits::blocking_queue`](crate::Limits::blocking_queue)
/// further calls wait for a thread. If the future is dropped because the client disconnected or the
/// deadline passed, a waiting call never runs. A running call continues, but its result is dropped.
/// A drain waits for running calls, which may be in the middle of a write. Calls that have not
/// returned by then are counted in [`Drained::cut`](crate::Drained::cut).
///
/// # Errors
///
/// Returns [`BlockingError`] if the pool is full, and counts the call in
/// `corelane_requests_refused_total` (reason `pool_full`). If a service returns this error, or an
/// error caused by it, the client gets `503` with `Retry-After`.
///
/// # Panics
///
/// Panics if it is called outside a lane. The future panics if `work` panics, and the client then
/// gets `500`.
///
/// ```
/// use corelane::BlockingError;
///
/// async fn read(path: String) -> Result<std::io::Result<Vec<u8>>, BlockingError> {
///     corelane::blocking(move || std::fs::read(path)).await
/// }
/// ```
pub fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Blocking<T> {
    let (call, relay) = POOL.with_borrow(|pool| {
        let pool = pool.as_ref().expect("blocking is called on the thread of a lane");
        (pool.admit(), pool.relay.clone())
    });
    let Some(call) = call else { return Blocking(None) };
    let call = Arc::new(call);
    let permit = Permit(Arc::clone(&call));
    let request_record = current::named();
    let work = move || {
        permit.begin();
        let _request = OnBehalf::of(request_record);
        work()
    };
    let result = match relay {
        None => CallResult::Own(spawn_blocking(work)),
        Some(relay) => CallResult::relayed(&relay, work),
    };
    Blocking(Some((result, call)))
}

/// The result of a call, until it is read.
#[derive(Debug)]
enum CallResult<T> {
    Own(JoinHandle<T>),
    Relayed(oneshot::Receiver<thread::Result<T>>),
}

impl<T: Send + 'static> CallResult<T> {
    fn relayed(relay: &Relay, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (sender, result) = oneshot::channel();
        let call = move || {
            // A call whose future was dropped does not run.
            if !sender.is_closed() {
                let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
            }
        };
        // Dropped if the lane has exited.
        let _ = relay.send(Box::new(call));
        CallResult::Relayed(result)
    }
}

#[derive(Debug)]
struct Call {
    state: AtomicU8,
    calls: Arc<Calls>,
}

const BEGUN: u8 = 1;
const LEFT: u8 = 2;
const DONE: u8 = 4;
const ABANDONED: u8 = BEGUN | LEFT;

impl Call {
    /// Sets a bit. Called once per bit.
    fn note(&self, what: u8) {
        let before = self.state.fetch_or(what, Relaxed);
        if before | what == ABANDONED {
            self.calls.abandon();
        } else if what == DONE && before == ABANDONED {
            self.calls.end_abandoned();
        }
    }
}

/// Lets a call use its pool until the call has returned or can no longer run.
struct Permit(Arc<Call>);

impl Permit {
    fn begin(&self) {
        self.0.note(BEGUN);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.note(DONE);
        self.0.calls.end();
    }
}

/// The future of [`blocking`].
#[derive(Debug)]
#[must_use = "a call whose future is dropped may not run"]
pub struct Blocking<T>(Option<(CallResult<T>, Arc<Call>)>);

/// All threads of the pool are busy and its queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many blocking calls")]
pub struct BlockingError;

impl<T> Future for Blocking<T> {
    type Output = Result<T, BlockingError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((result, _)) = &mut self.0 else { return Poll::Ready(Err(BlockingError)) };
        match result {
            CallResult::Own(result) => Pin::new(result).poll(cx).map(|ended| match ended {
                Ok(result) => Ok(result),
                Err(error) => resume_unwind(error.into_panic()),
            }),
            CallResult::Relayed(result) => Pin::new(result).poll(cx).map(|ended| match ended {
                Ok(Ok(result)) => Ok(result),
                Ok(Err(panic)) => resume_unwind(panic),
                Err(_) => Err(BlockingError),
            }),
        }
    }
}

impl<T> Drop for Blocking<T> {
    fn drop(&mut self) {
        if let Some((result, call)) = &self.0 {
            if let CallResult::Own(result) = result {
                result.abort();
            }
            call.note(LEFT);
        }
    }
}
