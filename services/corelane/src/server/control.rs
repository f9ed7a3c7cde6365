//! The admin thread: admin port, signals, certificates, load reports, lane CPUs, watchdog and
//! drain.

use std::future::pending;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, sleep_until};

use crate::balance::{held, mover};
use crate::base::error::Error;
use crate::base::phase::Phase;
use crate::base::settings::Drain;
use crate::lane::watchdog;
use crate::load::report::{self, LoadReports};
use crate::os::cpu;
use crate::server::admin;
use crate::server::dependency::Dependency;
use crate::server::settings::Settings;
use crate::server::shared::Shared;
use crate::server::threads::Event;
use crate::slow::settings::SlowLanes;
use crate::transport::tls::Watch;

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

#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    Drain(&'static str),
    Now(&'static str),
}

impl ServerHandle {
    /// Starts the drain, like SIGTERM. Does nothing if a drain has already started.
    pub fn drain(&self) {
        // If the server has stopped, it does not need a drain.
        let _ = self.requests.send(Stop::Drain("the program"));
    }

    /// Stops the server at once, like a second signal, and cuts requests in flight.
    pub fn stop(&self) {
        let _ = self.requests.send(Stop::Now("the program"));
    }

    /// Creates a handle that reports the state of the dependency `name`, such as `database`. Names
    /// become labels of `corelane_dependency_up`, so their number must be bounded.
    pub fn dependency(&self, name: &'static str) -> Dependency {
        self.shared.dependencies.add(name)
    }

    /// The server's current phase.
    pub fn phase(&self) -> Phase {
        self.shared.phase()
    }
}

async fn forward_signals(
    [mut terminate, mut interrupt]: [Signal; 2],
    requests: UnboundedSender<Stop>,
) -> std::io::Result<()> {
    let mut request: fn(&'static str) -> Stop = Stop::Drain;
    loop {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        if requests.send(request(name)).is_err() {
            return Ok(());
        }
        request = Stop::Now;
    }
}

/// Waits for the first stop request and runs the drain phases. Returns only if the remaining
/// requests must be cut.
async fn walk(shared: &Shared, drain: &Drain, mut requests: UnboundedReceiver<Stop>) {
    let who = match requests.recv().await {
        Some(Stop::Drain(who)) => who,
        Some(Stop::Now(who)) => return tracing::warn!(who, "stopping at once, without a drain"),
        None => return,
    };
    let begun = Instant::now();
    shared.begin_drain();
    tracing::info!(who, settle = ?drain.settle, deadline = ?drain.deadline, "drain: settling");
    let calm = async {
        sleep_until(begun + drain.settle).await;
        shared.listeners.finish_handshakes(begun + drain.deadline).await;
        // This line is logged first, because lanes without connections end at once and then log
        // their end.
        let (in_flight, upgraded) = (shared.lanes.in_flight(), shared.lanes.upgraded());
        tracing::info!(in_flight, upgraded, "drain: closing");
        shared.advance(Phase::Closing);
        tokio::select! {
            () = report(shared, drain.report) => {}
            () = sleep_until(begun + drain.deadline) => {}
        }
    };
    let who = tokio::select! {
        () = calm => "the deadline",
        who = asked_to_stop(&mut requests) => who,
    };
    let lanes = &shared.lanes;
    let (in_flight, calls) = (lanes.in_flight(), lanes.blocking_calls());
    tracing::warn!(in_flight, upgraded = lanes.upgraded(), calls, who, "drain: cut short");
}

/// The source of the stop request that cut the drain short.
async fn asked_to_stop(requests: &mut UnboundedReceiver<Stop>) -> &'static str {
    loop {
        match requests.recv().await {
            Some(Stop::Now(who)) => return who,
            Some(Stop::Drain(_)) => {}
            None => return "the program",
        }
    }
}

/// Periodically logs lanes that a handler is blocking. Other lanes log their own state.
async fn report(shared: &Shared, every: Duration) {
    let beats = || shared.lanes.iter().map(|lane| lane.metrics.beats.get()).collect::<Vec<_>>();
    let mut ticks = interval_at(Instant::now() + every, every);
    let mut before = beats();
    loop {
        ticks.tick().await;
        let now = beats();
        for (index, lane) in shared.lanes.iter().enumerate() {
            let stuck = now[index] == before[index];
            if let Some((kind, held)) =
                lane.running.get(std::time::Instant::now()).filter(|_| stuck)
            {
                tracing::warn!(
                    lane = index,
                    connections = lane.metrics.open.get(),
                    in_flight = lane.metrics.in_flight.get(),
                    method = kind.method_name(),
                    route = shared.routes().name(kind.route()),
                    held = ?held,
                    "drain: a handler holds its lane"
                );
            }
        }
        before = now;
    }
}

/// Requests observed before the routes are considered known.
const MANY: u64 = 1000;

async fn watch_routes(shared: &Shared) {
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let finished = || shared.lanes.iter().map(|lane| lane.metrics.finished.get()).sum::<u64>();
    while finished() < MANY {
        ticks.tick().await;
    }
    let other = shared.routes().other();
    let mut kinds = shared.lanes.iter().flat_map(|lane| lane.metrics.requests());
    if kinds.all(|(kind, ..)| kind.route() == other) {
        tracing::warn!(
            requests = finished(),
            "no request has a route, so cheap and expensive ones are not told apart: list the \
             templates (Builder::routes), call set_route, or use axum::LearnRoutes or LearnCalls"
        );
    }
    pending().await
}

/// State of the admin thread, which is not pinned.
pub(crate) struct Controller {
    pub(crate) shared: Arc<Shared>,
    pub(crate) settings: Settings,
    pub(crate) admin: Option<TcpListener>,
    pub(crate) signals: Option<UnboundedSender<Stop>>,
    pub(crate) requests: UnboundedReceiver<Stop>,
    pub(crate) certificates: Option<Watch>,
    /// Notified when the signal handlers are installed.
    pub(crate) armed: mpsc::Sender<()>,
    pub(crate) finished: oneshot::Receiver<()>,
    pub(crate) events: mpsc::Sender<Event>,
}

impl Controller {
    pub(crate) fn run(self) -> Result<u64, Error> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(Default::default())
            .and_then(|runtime| runtime.block_on(self.control()))
            .map(|()| 0)
            .map_err(Error::system("running the admin port or signals"))
    }

    async fn control(self) -> std::io::Result<()> {
        let parts = &self.shared.parts;
        let lifecycle = &*parts.lifecycle;
        let catch = || {
            let kinds = [SignalKind::terminate(), SignalKind::interrupt()];
            let [terminate, interrupt] = kinds.map(signal);
            std::io::Result::Ok([terminate?, interrupt?])
        };
        let caught = self.signals.is_some().then(catch).transpose()?;
        let _ = self.armed.send(());
        let admin = async {
            match self.admin {
                Some(listener) => {
                    admin::run(listener, Arc::clone(&self.shared), &self.settings).await
                }
                None => pending().await,
            }
        };
        let signals = async {
            match (caught, self.signals) {
                (Some(caught), Some(requests)) => forward_signals(caught, requests).await,
                _ => pending().await,
            }
        };
        let certificates = async {
            if let (Some(watch), Some(tls)) = (self.certificates, self.shared.tls()) {
                watch.run(tls).await;
            }
            pending::<()>().await;
        };
        let load_reports = async {
            match self.settings.lane.requests.load_reports {
                LoadReports::Off => pending().await,
                form => report::run(&self.shared.lanes, &parts.requests.load_report, form).await,
            }
        };
        let drain = async {
            walk(&self.shared, &self.settings.lane.drain, self.requests).await;
            // The event is sent first, because the lanes end as soon as the phase changes.
            let _ = self.events.send(Event::CutShort);
            self.shared.advance(Phase::Stopped);
            pending::<()>().await;
        };
        let shared = &*self.shared;
        let (moving, stall) = (self.settings.moving, self.settings.timeouts().stall);
        let lanes = shared.lanes.iter().map(|lane| &lane.cpu).collect();
        let held = Some(self.settings.slow_lanes().map_or(stall, SlowLanes::backlog));
        #[cfg(feature = "chaos")]
        let held = held.filter(|_| !self.settings.lane.chaos.is_some_and(|chaos| chaos.lend));
        // This check is a separate task, because it runs far more often than the other checks.
        if let Some(lending) = parts.lending.clone() {
            let (lanes, lifecycle) = (Arc::clone(&shared.lanes), Arc::clone(&parts.lifecycle));
            spawn_local(async move { held::run(&lanes, &lending, &lifecycle, held).await });
        }
        tokio::select! {
            result = admin => result,
            result = signals => result,
            () = certificates => Ok(()),
            never = load_reports => match never {},
            () = drain => Ok(()),
            () = mover::run(&shared.lanes, &parts.mailboxes, &shared.plans, lifecycle, moving) => Ok(()),
            () = watchdog::run(&shared.lanes, shared.routes(), lifecycle, stall) => Ok(()),
            _ = self.finished => Ok(()),
            () = cpu::watch(&self.shared.cpus, lanes) => Ok(()),
            () = watch_routes(shared) => Ok(()),
        }
    }
}
