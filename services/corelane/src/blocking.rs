//! Running code that blocks without stopping the lane.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use rustix::thread::{sched_getaffinity, sched_setaffinity};
use tokio::task::JoinHandle;

thread_local! {
    /// The pool of the lane that runs on this thread.
    static POOL: RefCell<Option<Arc<Pool>>> = const { RefCell::new(None) };
}

/// What bounds the blocking threads of a lane; the threads themselves are its event loop's.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Calls that run or wait.
    calls: AtomicUsize,
    allowed: usize,
}

impl Pool {
    pub(crate) fn new(threads: usize, queue: usize) -> Arc<Self> {
        Arc::new(Pool { calls: AtomicUsize::new(0), allowed: threads.saturating_add(queue) })
    }

    /// Makes this the pool of the calling thread.
    pub(crate) fn enter(self: Arc<Self>) {
        POOL.set(Some(self));
    }

    /// Calls that run or wait.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Relaxed)
    }
}

/// Lets a thread that a pinned lane started run on any CPU of the process: what blocks should use
/// one that is idle, not the lane's. The process's first thread is never pinned.
pub(crate) fn unpin_current_thread() {
    let everywhere = sched_getaffinity(Some(rustix::process::getpid()));
    if let Err(error) = everywhere.and_then(|cpus| sched_setaffinity(None, &cpus)) {
        tracing::debug!(%error, "a blocking thread stays on its lane's CPU");
    }
}

/// Runs `work`, which may block or compute for long, on a thread of this lane's pool, while the
/// lane serves other requests.
///
/// A lane has at most [`Limits::blocking_threads`](crate::Limits::blocking_threads) such threads;
/// [`Limits::blocking_queue`](crate::Limits::blocking_queue) more calls wait for one. They are not
/// pinned. When the future is dropped, because the client left or the deadline passed, a call that
/// still waits is not made; one that runs goes on, and its result is dropped. A drain waits for
/// calls that run, until [`Drain::deadline`](crate::Drain::deadline), whether or not their clients
/// have left: they may be in the middle of a write.
///
/// # Errors
///
/// [`BlockingError`] when the pool is full. A service that returns it (or an error that it is
/// the source of) answers `503` with `Retry-After`.
///
/// # Panics
///
/// When called outside of a lane. The future panics if `work` did; the request is then answered
/// `500`.
///
/// ```
/// use corelane::BlockingError;
///
/// async fn read(path: String) -> Result<std::io::Result<Vec<u8>>, BlockingError> {
///     corelane::blocking(move || std::fs::read(path)).await
/// }
/// ```
pub fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Blocking<T> {
    let pool = POOL.with_borrow(Clone::clone).expect("blocking is called on a lane's thread");
    if pool.calls.fetch_add(1, Relaxed) >= pool.allowed {
        pool.calls.fetch_sub(1, Relaxed);
        return Blocking(None);
    }
    let call = Call(pool);
    Blocking(Some(tokio::task::spawn_blocking(move || {
        let _until_done = call;
        work()
    })))
}

/// A call's place in its pool, given up when it has returned or is not made.
struct Call(Arc<Pool>);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Relaxed);
    }
}

/// The result of a call of [`blocking`], to come.
#[derive(Debug)]
#[must_use = "a call whose future is dropped may not be made"]
pub struct Blocking<T>(Option<JoinHandle<T>>);

/// All threads of the pool are busy and its queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many blocking calls")]
pub struct BlockingError;

impl<T> Future for Blocking<T> {
    type Output = Result<T, BlockingError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(call) = &mut self.0 else { return Poll::Ready(Err(BlockingError)) };
        Pin::new(call).poll(cx).map(|ended| match ended {
            Ok(result) => Ok(result),
            Err(error) => resume_unwind(error.into_panic()),
        })
    }
}

impl<T> Drop for Blocking<T> {
    fn drop(&mut self) {
        if let Some(call) = &self.0 {
            call.abort();
        }
    }
}
