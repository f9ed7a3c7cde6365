//! Runs a lane: one thread, one event loop, listeners, connections and a service.

use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::accept::{Admitter, ConnectionSource, PhaseWatch, accept_until_drained};
use super::parts::{LaneSettings, ServerParts};
use super::sweep::{self, Sweep};
use crate::balance::inbox::Inboxes;
use crate::balance::moves::Moves;
use crate::base::error::{BoxError, Error};
use crate::base::phase::Phase;
use crate::load::lane::{Lane, Left};
use crate::request::blocking::{Pool, unpin_current_thread};
use crate::request::lane_state::LaneState;
#[cfg(feature = "chaos")]
use crate::request::polls::Polls;
use crate::request::queue;
use crate::request::service::{HttpService, create};
use crate::slow::handover::{Handover, fix_costs};
use crate::slow::thread::{SlowLane, SlowParts};
#[cfg(feature = "chaos")]
use crate::transport::chaos::Choices;
use crate::transport::connections::Connections;
use crate::transport::host::LaneService;
use crate::transport::resting::Resting;
use crate::transport::{arrivals, parking};

/// Runs a lane on the calling thread until it is drained or stopped. Returns the number of requests
/// that were cut.
pub(crate) fn run<F, T, S, E>(
    lane: Lane,
    source: ConnectionSource,
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
    // Dropped last on the lane.
    let _emptied = Emptied(&lane);
    let pass = parts.start.pass();
    let _occupied = shared.cpu.enter().map_err(Error::system("pinning a lane to its CPU"))?;
    let limits = &settings.requests.limits;
    Pool::new(lane.clone(), limits, None).enter();
    let handover = parts.slow.as_ref().map(|queues| Handover::new(queues, &lane));
    let (connections, moves) = connections(&lane, &settings, &parts, handover.as_ref());
    let _closing = parts.lending.as_ref().map(|lending| lending.closing(lane.index));
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    watch_sleep(&mut runtime, parts.inboxes.as_ref(), lane.index);
    let runtime = runtime
        .enable_all()
        .max_blocking_threads(limits.blocking_threads)
        .on_thread_start(unpin_current_thread)
        .thread_name(format!("lane-{}-blocking", lane.index))
        .build_local(Default::default())
        .map_err(Error::system("starting a lane's event loop"))?;
    let slow_parts = parts.slow.clone().map(|queues| SlowParts {
        queues,
        limits: limits.clone(),
        lifecycle: Arc::clone(&parts.lifecycle),
        start: Arc::clone(&parts.start),
    });
    let mut slow = slow_parts.map(|parts| SlowLane::start(&lane, parts, factory)).transpose()?;
    // Called once per lane, because each lane has one thread.
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
        if let (Some(slow), Some(handover)) = (&mut slow, &handover) {
            slow.accompany(handover);
        }
        let sender = Rc::clone(state);
        spawn_local(async move { sender.sends.run().await });
        let host = Rc::new(LaneService::new(Rc::clone(&connections), service));
        spawn_local(parking::run(Rc::clone(&host)));
        spawn_local(arrivals::serve_moved(Rc::clone(&host)));
        spawn_local(arrivals::serve_lent(Rc::clone(&host)));
        let phase = PhaseWatch::new(&parts.lifecycle, Rc::clone(&connections), hurry);
        accept_until_drained(Admitter::new(host), source, phase, moves.mailbox()).await;
        if let Some(slow) = &slow {
            tokio::select! {
                () = slow.finish() => {}
                () = stopped(&parts) => {}
            }
        }
        state.sends.flush();
        let unanswered = connections.open.borrow().iter().map(|(_, c)| c.unanswered()).sum();
        // A call that its handler awaits is part of the request as long as the request is open.
        let none = unanswered == 0;
        let calls = if none { shared.calls.unfinished() } else { shared.calls.abandoned() };
        let _ = shared.left.set(Left { requests: unanswered, calls });
        Ok(unanswered)
    });
    connections.strays.end();
    // A slow lane that never ends must not hide an error.
    if let (Some(slow), Ok(_)) = (slow, &ended) {
        slow.join()?;
    }
    let calls = shared.calls.unfinished();
    if calls > 0 {
        // Dropping the runtime would also wait for these calls, but could not log the wait.
        tracing::info!(lane = lane.index, calls, "drain: waiting for blocking calls");
    }
    ended
}

/// Asserts on drop that a lane has released everything that it counted.
struct Emptied<'a>(&'a Lane);

impl Drop for Emptied<'_> {
    fn drop(&mut self) {
        // After a panic, the panic message is enough, so nothing is asserted.
        if !std::thread::panicking() {
            self.0.shared().check_empty();
        }
    }
}

async fn stopped(parts: &ServerParts) {
    // The server outlives its lanes.
    let _ = parts.lifecycle.watch().wait_for(|phase| *phase == Phase::Stopped).await;
}

/// Waits until every lane has its service. Returns false if a lane fails or the server has stopped.
async fn begins(parts: &ServerParts) -> bool {
    tokio::select! {
        opened = parts.start.opened() => opened,
        () = stopped(parts) => false,
    }
}

fn connections(
    lane: &Lane,
    settings: &LaneSettings,
    parts: &ServerParts,
    handover: Option<&Rc<Handover>>,
) -> (Rc<Connections>, Rc<Moves<Resting>>) {
    let slow = handover.map(|handover| Rc::clone(handover) as _);
    let shared = parts.requests.clone();
    let state = Rc::new(LaneState::new(lane.clone(), &settings.requests, shared, slow));
    if handover.is_some() {
        fix_costs(lane.shared(), &state.routes, &settings.costs);
    }
    let (lifecycle, mailboxes) = (Arc::clone(&parts.lifecycle), Arc::clone(&parts.mailboxes));
    let moves = Rc::new(Moves::new(&state, lifecycle, mailboxes));
    let tls = parts.tls.clone();
    let connections = Connections::new(
        state,
        Rc::clone(&moves),
        tls,
        settings.plain_requests,
        parts.lending.clone(),
    );
    #[cfg(feature = "chaos")]
    let connections = {
        let chaos = |chaos| Choices::new(chaos, lane.index, lane.lanes.len());
        let chaos = settings.chaos.map(chaos);
        if chaos.is_some() {
            connections.lane.polls.raise(Polls::CHAOS);
        }
        Connections { chaos, ..connections }
    };
    (Rc::new(connections), moves)
}

/// Notifies the inboxes, if any, when this lane sleeps and wakes up.
fn watch_sleep(runtime: &mut tokio::runtime::Builder, inboxes: Option<&Arc<Inboxes>>, lane: usize) {
    let Some(inboxes) = inboxes else { return };
    let tell = |what: fn(&Inboxes, usize)| {
        let inboxes = Arc::clone(inboxes);
        move || what(&inboxes, lane)
    };
    runtime.on_thread_park(tell(Inboxes::fall_asleep)).on_thread_unpark(tell(Inboxes::wake_up));
}
