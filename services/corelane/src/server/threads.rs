//! A server's threads, and their messages to the thread that is waiting for them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::base::error::Error;
use crate::base::phase::Phase;
use crate::server::shared::Shared;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thread {
    Lane(usize),
    Acceptor,
    Admin,
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Thread::Lane(index) => write!(f, "lane-{index}"),
            Thread::Acceptor => f.write_str("acceptor"),
            Thread::Admin => f.write_str("admin"),
        }
    }
}

/// Messages from a server's threads to the caller of [`Server::serve`](crate::Server::serve).
pub(crate) enum Event {
    /// A thread exited and cut this number of requests. `None` means that it panicked.
    Ended {
        thread: Thread,
        result: Option<Result<u64, Error>>,
    },
    CutShort,
}

/// Reports on drop that a thread has exited, including panics.
struct Ended {
    thread: Thread,
    result: Option<Result<u64, Error>>,
    events: mpsc::Sender<Event>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        let event = Event::Ended { thread: self.thread, result: self.result.take() };
        // `serve` may have returned already.
        let _ = self.events.send(event);
    }
}

/// The outcome of a shutdown.
#[must_use = "requests may have been cut"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Number of requests in flight, incomplete responses, and upgraded connections and HTTP/2
    /// streams that were cut by the deadline or a second signal. [`blocking`](crate::blocking)
    /// calls are also counted if they outlived their requests and did not return within another
    /// second. A call whose request was still in flight is not counted separately. 0 means a clean
    /// shutdown, with one exception: if a handler blocked its lane until the end, input that the
    /// lane never read is lost and cannot be counted.
    pub cut: u64,
}

pub(crate) fn spawn(
    thread: Thread,
    events: &mpsc::Sender<Event>,
    run: impl FnOnce() -> Result<u64, Error> + Send + 'static,
) -> Result<thread::JoinHandle<()>, Error> {
    let mut ended = Ended { thread, result: None, events: events.clone() };
    thread::Builder::new()
        .name(thread.to_string())
        .spawn(move || {
            let ended = &mut ended;
            ended.result = Some(run());
        })
        .map_err(Error::system("starting a thread"))
}

/// Maximum time for lanes to stop. Lanes that a handler is blocking are abandoned, as are blocking
/// calls.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Waits until the first `started` lanes have ended or their remaining requests have been cut.
pub(crate) fn wait_for_end(
    inbox: &mpsc::Receiver<Event>,
    shared: &Shared,
    started: usize,
) -> Result<Drained, Error> {
    let mut running: BTreeSet<usize> = (0..started).collect();
    let grace_from_now = || Instant::now() + STOP_GRACE;
    let mut until = (shared.phase() == Phase::Stopped).then(grace_from_now);
    let mut failure = None;
    let mut cut = 0;
    while !running.is_empty() {
        let event = match until {
            Some(until) => inbox.recv_timeout(until - Instant::now()).ok(),
            None => inbox.recv().ok(),
        };
        match event {
            Some(Event::CutShort) => {
                until.get_or_insert_with(grace_from_now);
            }
            Some(Event::Ended { thread, result }) => {
                if let Thread::Lane(index) = thread {
                    running.remove(&index);
                }
                match result.unwrap_or(Err(Error::ThreadEnded { name: thread.to_string() })) {
                    Ok(requests) => cut += requests,
                    Err(error) => {
                        failure.get_or_insert(error);
                        until.get_or_insert_with(grace_from_now);
                        shared.advance(Phase::Stopped);
                    }
                }
            }
            None => break,
        }
    }
    shared.advance(Phase::Stopped);
    // A lane that does not stop is abandoned along with its unfinished work.
    cut += running.iter().map(|&lane| shared.lanes[lane].unfinished()).sum::<u64>();
    if let Some(error) = failure {
        return Err(error);
    }
    tracing::info!(cut, "drain: ended");
    Ok(Drained { cut })
}
