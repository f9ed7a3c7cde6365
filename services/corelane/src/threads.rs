//! The threads of a server, and what the one that waits for them hears.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::error::Error;
use crate::server::Drained;
use crate::shared::{Phase, Shared};

/// Name of the thread beside the lanes.
pub(crate) const CONTROLLER: &str = "admin";

/// What the threads of a server tell the one that called [`Server::serve`].
pub(crate) enum Event {
    /// The thread of this name ended; without a result it panicked.
    Ended { name: String, result: Option<Result<(), Error>> },
    /// The drain was cut short; this many requests were in flight.
    Cut(u64),
}

/// Reports the end of a thread when dropped, so that a panic is reported too.
struct Ended {
    name: String,
    result: Option<Result<(), Error>>,
    events: mpsc::Sender<Event>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        let (name, result) = (std::mem::take(&mut self.name), self.result.take());
        // Nobody listens any more when `serve` has returned.
        let _ = self.events.send(Event::Ended { name, result });
    }
}

/// Starts a thread whose end is reported.
pub(crate) fn spawn(
    name: String,
    events: &mpsc::Sender<Event>,
    run: impl FnOnce() -> Result<(), Error> + Send + 'static,
) -> Result<thread::JoinHandle<()>, Error> {
    let mut ended = Ended { name: name.clone(), result: None, events: events.clone() };
    thread::Builder::new()
        .name(name)
        .spawn(move || {
            let ended = &mut ended;
            ended.result = Some(run());
        })
        .map_err(Error::system("starting a thread"))
}

/// How long lanes may take to stop once they are told; a handler that blocks its lane is left.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Waits until every lane has ended, or the rest had to be cut.
pub(crate) fn wait_for_end(
    inbox: &mpsc::Receiver<Event>,
    shared: &Shared,
) -> Result<Drained, Error> {
    let mut running = shared.lanes.len();
    let mut cut = None;
    let mut failure = None;
    while running > 0 {
        let stopping = cut.is_some() || failure.is_some();
        let event = match stopping {
            true => inbox.recv_timeout(STOP_GRACE).ok(),
            false => inbox.recv().ok(),
        };
        match event {
            Some(Event::Cut(n)) => cut = Some(n),
            Some(Event::Ended { name, result }) => {
                let is_lane = name != CONTROLLER;
                running -= usize::from(is_lane);
                match result.unwrap_or(Err(Error::ThreadEnded { name })) {
                    Ok(()) => {}
                    Err(error) => {
                        failure.get_or_insert(error);
                        shared.advance(Phase::Stopped);
                    }
                }
            }
            None => break,
        }
    }
    shared.advance(Phase::Stopped);
    if let Some(error) = failure {
        return Err(error);
    }
    let cut = cut.unwrap_or(0);
    tracing::info!(cut, "drain: ended");
    Ok(Drained { cut })
}
