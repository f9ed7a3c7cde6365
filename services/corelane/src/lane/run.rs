//! A lane: one thread, one event loop, its listener, its connections, its service.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::accept::{Admission, PhaseWatch, Source, accept_until_drained};
use super::inbox::Inboxes;
use super::moving::mailbox::Mailbox;
use super::moving::{self, LaneMoves};
use super::slow::SlowLane;
use super::sweep::{self, Sweep};
use crate::base::error::{BoxError, Error};
use crate::base::phase::{Lifecycle, Phase, StartGate};
use crate::base::settings::{Drain, Moving, PARK_AFTER};
use crate::load::lane::{Lane, Left};
use crate::request::blocking::{Pool, unpin_current_thread};
use crate::request::lane_state::{LaneState, RequestSettings, RequestShared};
#[cfg(feature = "chaos")]
use crate::request::polls::Polls;
use crate::request::queue;
use crate::request::service::HttpService;
#[cfg(feature = "chaos")]
use crate::transport::chaos::{Chaos, LaneChaos};
use crate::transport::connections::Connections;
use crate::transport::host::LaneService;
use crate::transport::parking;
use crate::transport::tls::Termination;

/// Settings of lanes and their connections.
#[derive(Clone, Debug)]
pub(crate) struct LaneSettings {
    pub(crate) requests: RequestSettings,
    /// Whether the fast path is enabled.
    pub(crate) fast_path: bool,
    /// Idle time after which a connection parks.
    pub(crate) park_after: Option<Duration>,
    /// Whether connections may move to other lanes.
    pub(crate) moving: Moving,
    pub(crate) drain: Drain,
    #[cfg(feature = "chaos")]
    pub(crate) chaos: Option<Chaos>,
}

impl Default for LaneSettings {
    fn default() -> Self {
        LaneSettings {
            requests: RequestSettings::default(),
            fast_path: true,
            park_after: Some(PARK_AFTER),
            moving: Moving::default(),
            drain: Drain::default(),
            #[cfg(feature = "chaos")]
            chaos: None,
        }
    }
}

/// What the lanes of a server share with its other threads.
#[derive(Clone, Debug)]
pub(crate) struct ServerParts {
    pub(crate) requests: RequestShared,
    /// Set if the port uses TLS.
    pub(crate) tls: Option<Arc<Termination>>,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) start: Arc<StartGate>,
    pub(crate) mailboxes: Arc<[Mailbox]>,
    /// The inboxes of the lanes, if an acceptor fills them.
    pub(crate) inboxes: Option<Arc<Inboxes>>,
}

/// Runs a lane on the calling thread until it is drained or stopped. Returns the number of requests
/// that were cut.
pub(crate) fn run<F, T, S, E>(
    lane: Lane,
    source: Source,
    settings: LaneSettings,
    parts: ServerParts,
    factory: &Arc<F>,
) -> Result<u64, Error>
where
    F: Fn(Lane) -> T + Send + Sync + 'static,
    T: Future<Output = Result<S, E>>,
    S: HttpService,
    E: Into<BoxError>,
{
    let shared = lane.shared();
    let pass = parts.start.pass();
    let _occupied = shared.cpu.enter().map_err(Error::system("pinning a lane to its CPU"))?;
    let limits = &settings.requests.limits;
    Pool::new(lane.clone(), limits, None).enter();
    let (connections, moves) = connections(&lane, &settings, &parts);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    watch_sleep(&mut runtime, parts.inboxes.as_ref(), lane.index);
    let runtime = runtime
        .enable_all()
        .max_blocking_threads(limits.blocking_threads)
        .on_thread_start(unpin_current_thread)
        .thread_name(format!("lane-{}-blocking", lane.index))
        .build_local(Default::default())
        .map_err(Error::system("starting a lane's event loop"))?;
    let mut slow = SlowLane::start(&lane, &settings, &parts, factory)?;
    // Each lane has one thread, so this is the only call.
    let _ = shared.runtime.set(runtime.handle().metrics());
    let ended = runtime.block_on(async {
        let source = source.watch().map_err(Error::system("watching a listener"))?;
        let made = create(&lane, &**factory, &parts.lifecycle).await?;
        let Some(service) = made else { return Ok(0) };
        if settings.park_after.is_some() {
            let opened = connections.parking_lot.open();
            opened.map_err(Error::system("opening a lane's parking lot"))?;
        }
        pass.arrive();
        if !begins(&parts).await {
            return Ok(0);
        }
        shared.set_listening();
        let hurry = Rc::new(Notify::new());
        spawn_local(sweep::run(Sweep {
            connections: Rc::clone(&connections),
            moves: Rc::clone(&moves),
            park_after: settings.park_after,
            report: settings.drain.report,
            hurry: Rc::clone(&hurry),
        }));
        let state = &connections.lane;
        spawn_local(queue::run(Rc::clone(&state.queue)));
        if let Some(slow) = &mut slow {
            slow.accompany(state);
        }
        let sender = Rc::clone(state);
        spawn_local(async move { sender.sends.run().await });
        let host = Rc::new(LaneService::new(Rc::clone(&connections), service));
        spawn_local(parking::run(Rc::clone(&host)));
        spawn_local(moving::run(Rc::clone(&host), Rc::clone(&moves)));
        let phase = PhaseWatch::new(&parts.lifecycle, Rc::clone(&connections), hurry);
        accept_until_drained(Admission::new(host), source, phase, moves.mailbox()).await;
        state.sends.flush();
        let unanswered = connections.open.borrow().iter().map(|(_, c)| c.unanswered()).sum();
        // An awaited call is part of its request, if any request is left.
        let none = unanswered == 0;
        let calls = if none { shared.calls.unfinished() } else { shared.calls.abandoned() };
        let _ = shared.left.set(Left { requests: unanswered, calls });
        Ok(unanswered)
    });
    connections.strays.end();
    // After an error, a slow lane that does not end must not hide it.
    if let (Some(slow), Ok(_)) = (slow, &ended) {
        slow.join()?;
    }
    let calls = shared.calls.unfinished();
    if calls > 0 {
        // The runtime waits for these calls when it is dropped, and cannot log that.
        tracing::info!(lane = lane.index, calls, "drain: waiting for blocking calls");
    }
    ended
}

/// Creates the lane's service. `None`: a drain began before it was ready.
pub(super) async fn create<F, T, S, E>(
    lane: &Lane,
    factory: &F,
    lifecycle: &Lifecycle,
) -> Result<Option<S>, Error>
where
    F: Fn(Lane) -> T,
    T: Future<Output = Result<S, E>>,
    E: Into<BoxError>,
{
    let failed = |source| Error::Factory { lane: lane.index, source };
    let mut made = pin!(async { factory(lane.clone()).await });
    let made = poll_fn(|cx| {
        let caught = catch_unwind(AssertUnwindSafe(|| made.as_mut().poll(cx)));
        caught.map_or_else(
            |panic| Poll::Ready(Err(failed(message(&*panic)))),
            |polled| polled.map_err(|error| failed(error.into())),
        )
    });
    let mut phase = lifecycle.watch();
    tokio::select! {
        // A service that is ready at once is served: clients may wait for it already.
        biased;
        made = made => made.map(Some),
        _ = phase.wait_for(|phase| *phase > Phase::Serving) => Ok(None),
    }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> BoxError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("without a message")).into()
}

/// Waits until every lane has its service. False: one of them never has, or the server has stopped.
async fn begins(parts: &ServerParts) -> bool {
    let mut phase = parts.lifecycle.watch();
    tokio::select! {
        opened = parts.start.opened() => opened,
        _ = phase.wait_for(|phase| *phase == Phase::Stopped) => false,
    }
}

/// The connections of a lane, and their moves to other lanes.
fn connections(
    lane: &Lane,
    settings: &LaneSettings,
    parts: &ServerParts,
) -> (Rc<Connections>, Rc<LaneMoves>) {
    let state = LaneState::new(lane.clone(), &settings.requests, parts.requests.clone());
    let state = Rc::new(state);
    let (lifecycle, mailboxes) = (Arc::clone(&parts.lifecycle), Arc::clone(&parts.mailboxes));
    let moves = Rc::new(LaneMoves::new(&state, lifecycle, mailboxes, settings.moving));
    let tls = parts.tls.clone();
    let connections = Connections::new(state, Rc::clone(&moves) as _, tls, settings.fast_path);
    #[cfg(feature = "chaos")]
    let connections = {
        let chaos = |chaos| LaneChaos::new(chaos, lane.index, lane.lanes.len());
        let chaos = settings.chaos.map(chaos);
        if chaos.is_some() {
            connections.lane.polls.raise(Polls::CHAOS);
        }
        Connections { chaos, ..connections }
    };
    (Rc::new(connections), moves)
}

/// Reports to the inboxes, if there are any, when this lane sleeps and wakes.
fn watch_sleep(runtime: &mut tokio::runtime::Builder, inboxes: Option<&Arc<Inboxes>>, lane: usize) {
    let Some(inboxes) = inboxes else { return };
    let tell = |what: fn(&Inboxes, usize)| {
        let inboxes = Arc::clone(inboxes);
        move || what(&inboxes, lane)
    };
    runtime.on_thread_park(tell(Inboxes::fall_asleep)).on_thread_unpark(tell(Inboxes::wake_up));
}
