//! The thread beside the lanes: admin port, signals, and the drain, phase by phase.

use std::future::pending;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::time::{Instant, interval_at, sleep_until};

use crate::admin;
use crate::error::Error;
use crate::settings::Drain;
use crate::shared::{Phase, Shared};
use crate::threads::Event;

/// How often a drain says what it still waits for.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// Drains or stops a running server from another thread.
///
/// ```
/// # fn main() -> Result<(), corelane::Error> {
/// let server = corelane::Server::builder().bind("127.0.0.1:0".parse().unwrap()).build()?;
/// let handle = server.handle();
/// std::thread::spawn(move || handle.drain());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ServerHandle {
    pub(crate) requests: UnboundedSender<Stop>,
    pub(crate) shared: Arc<Shared>,
}

/// What ends a server: the first begins the drain, the second cuts it short.
#[derive(Debug)]
pub(crate) struct Stop(pub(crate) &'static str);

impl ServerHandle {
    /// Begins the drain, as SIGTERM does. A second call (or signal) ends the server at once.
    pub fn drain(&self) {
        // A server that has ended already needs no drain.
        let _ = self.requests.send(Stop("asked by the program"));
    }

    /// Where the server is in its life.
    pub fn phase(&self) -> Phase {
        self.shared.phase()
    }
}

/// Forwards SIGTERM and SIGINT as requests to stop.
async fn forward_signals(requests: UnboundedSender<Stop>) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    loop {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        if requests.send(Stop(name)).is_err() {
            return Ok(());
        }
    }
}

/// Waits for the first request to stop and walks through the phases. Returns only when what is
/// left has to be cut, with the number of requests in flight.
async fn walk(shared: &Shared, drain: &Drain, mut requests: UnboundedReceiver<Stop>) -> u64 {
    let Some(Stop(why)) = requests.recv().await else { return pending().await };
    let begun = Instant::now();
    tracing::info!(why, settle = ?drain.settle, deadline = ?drain.deadline, "drain: settling");
    shared.advance(Phase::Settling);
    let calm = async {
        sleep_until(begun + drain.settle).await;
        tracing::info!(in_flight = shared.in_flight(), "drain: closing");
        shared.advance(Phase::Closing);
        tokio::select! {
            () = report(shared, begun) => {}
            () = sleep_until(begun + drain.deadline) => {}
        }
    };
    let why = tokio::select! {
        () = calm => "the deadline has come",
        _ = requests.recv() => "asked a second time",
    };
    let cut = shared.in_flight();
    tracing::warn!(cut, why, "drain: cut short");
    cut
}

/// Says every few seconds what hangs.
async fn report(shared: &Shared, begun: Instant) {
    let mut ticks = interval_at(Instant::now() + REPORT_EVERY, REPORT_EVERY);
    loop {
        ticks.tick().await;
        for (lane, state) in shared.lanes.iter().enumerate() {
            let (connections, in_flight) =
                (state.metrics.open.get(), state.metrics.in_flight.get());
            if connections > 0 {
                let waited = begun.elapsed().as_secs();
                tracing::info!(lane, connections, in_flight, waited, "drain: still waiting");
            }
        }
    }
}

/// The unpinned thread beside the lanes: admin port, signals, drain.
pub(crate) struct Controller {
    pub(crate) shared: Arc<Shared>,
    pub(crate) drain: Drain,
    pub(crate) admin: Option<TcpListener>,
    pub(crate) signals: Option<UnboundedSender<Stop>>,
    pub(crate) requests: UnboundedReceiver<Stop>,
    pub(crate) finished: oneshot::Receiver<()>,
    pub(crate) events: mpsc::Sender<Event>,
}

impl Controller {
    pub(crate) fn run(self) -> Result<(), Error> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(Default::default())
            .and_then(|runtime| runtime.block_on(self.control()))
            .map_err(Error::system("running the admin port or signals"))
    }

    async fn control(self) -> std::io::Result<()> {
        let admin = async {
            match self.admin {
                Some(listener) => admin::run(listener, Arc::clone(&self.shared)).await,
                None => pending().await,
            }
        };
        let signals = async {
            match self.signals {
                Some(requests) => forward_signals(requests).await,
                None => pending().await,
            }
        };
        let drain = async {
            let cut = walk(&self.shared, &self.drain, self.requests).await;
            // Told first: the lanes end as soon as the phase changes.
            let _ = self.events.send(Event::Cut(cut));
            self.shared.advance(Phase::Stopped);
            pending::<()>().await;
        };
        tokio::select! {
            result = admin => result,
            result = signals => result,
            () = drain => Ok(()),
            _ = self.finished => Ok(()),
        }
    }
}
