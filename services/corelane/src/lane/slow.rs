//! The thread of a slow lane.

use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::spawn_local;

use super::parts::{LaneSettings, ServerParts, create};
use super::yielding;
use crate::base::error::{BoxError, Error};
use crate::load::lane::Lane;
use crate::os::priority;
use crate::request::blocking::{self, Pool, Relay, RelayedCall, unpin_current_thread};
use crate::request::lane_state::LaneState;
use crate::request::service::HttpService;
use crate::request::slow::queue::SlowQueues;
use crate::request::slow_lane;

/// The slow lane of a lane, as that has it. It ends when this is dropped.
pub(super) struct SlowLane {
    lane: usize,
    queues: Arc<SlowQueues>,
    thread: Option<JoinHandle<Result<(), Error>>>,
    /// Blocking calls of its handlers.
    calls: Option<UnboundedReceiver<RelayedCall>>,
}

impl SlowLane {
    /// Starts the slow lane of a lane, if it is to have one.
    pub(super) fn start<F, T, S, E>(
        lane: &Lane,
        settings: &LaneSettings,
        parts: &ServerParts,
        factory: &Arc<F>,
    ) -> Result<Option<Self>, Error>
    where
        F: Fn(Lane) -> T + Send + Sync + 'static,
        T: Future<Output = Result<S, E>>,
        S: HttpService,
        E: Into<BoxError>,
    {
        let Some(queues) = parts.requests.slow.clone() else { return Ok(None) };
        let (relay, calls) = unbounded_channel();
        let slow = lane.slow();
        let (settings, parts, factory) = (settings.clone(), parts.clone(), Arc::clone(factory));
        let thread = thread::Builder::new()
            .name(format!("slow-{}", lane.index))
            .spawn(move || run(&slow, &settings, &parts, &*factory, relay))
            .map_err(Error::system("starting a thread"))?;
        let (thread, calls) = (Some(thread), Some(calls));
        Ok(Some(SlowLane { lane: lane.index, queues, thread, calls }))
    }

    /// Starts what the lane does for it.
    pub(super) fn accompany(&mut self, state: &Rc<LaneState>) {
        if let Some(calls) = self.calls.take() {
            spawn_local(blocking::relay(calls));
        }
        spawn_local(yielding::run(Rc::clone(state), Arc::clone(&self.queues)));
    }

    /// Gives it no further requests, and waits until those of other lanes that it serves have ended.
    pub(super) async fn finish(&self) {
        self.queues.close(self.lane);
        self.queues.ended(self.lane).await;
    }

    /// Ends it, and waits for that: a handler that is being polled may take any time.
    pub(super) fn join(mut self) -> Result<(), Error> {
        self.queues.end(self.lane);
        let thread = self.thread.take().expect("it is joined once");
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Drop for SlowLane {
    fn drop(&mut self) {
        self.queues.end(self.lane);
    }
}

/// Ends the queue, however the thread ends.
struct Closing<'a>(&'a SlowQueues, usize);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}

fn run<F, T, S, E>(
    lane: &Lane,
    settings: &LaneSettings,
    parts: &ServerParts,
    factory: &F,
    relay: Relay,
) -> Result<(), Error>
where
    F: Fn(Lane) -> T,
    T: Future<Output = Result<S, E>>,
    S: HttpService,
    E: Into<BoxError>,
{
    let queues = parts.requests.slow.as_ref().expect("it has slow lanes");
    let pass = parts.start.pass();
    let _closing = Closing(queues, lane.index);
    let shared = lane.shared();
    let _occupied =
        shared.cpu.enter_slow().map_err(Error::system("pinning a slow lane to its CPU"))?;
    let limits = &settings.requests.limits;
    Pool::new(lane.clone(), limits, Some(relay)).enter();
    let (park, unpark) = (lane.clone(), lane.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(limits.blocking_threads)
        .on_thread_start(unpin_current_thread)
        .on_thread_park(move || park.shared().slow.fall_asleep())
        .on_thread_unpark(move || unpark.shared().slow.wake_up())
        .thread_name(format!("slow-{}-blocking", lane.index))
        .build_local(Default::default())
        .map_err(Error::system("starting the event loop of a slow lane"))?;
    let ended = runtime.block_on(async {
        let made = tokio::select! {
            biased;
            made = create(lane, factory, &parts.lifecycle) => made?,
            () = queues.closed(lane.index) => None,
        };
        let Some(service) = made else { return Ok(()) };
        pass.arrive();
        // Last, because threads that the service starts inherit the priority.
        let priority = priority::lower_own();
        shared.slow.set_priority(priority);
        if lane.index == 0 {
            tracing::info!(priority = priority.name(), "slow lanes");
        }
        slow_lane::run(Arc::clone(queues), lane.index, service).await;
        Ok(())
    });
    drop(runtime);
    shared.slow.fall_asleep();
    shared.slow.end(shared.slow_time());
    ended
}
