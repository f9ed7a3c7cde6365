//! The thread of a slow lane.

use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::spawn_local;

use crate::base::error::{BoxError, Error};
use crate::base::phase::{Lifecycle, StartGate};
use crate::base::settings::Limits;
use crate::load::lane::Lane;
use crate::request::blocking::{self, Pool, Relay, RelayedCall, unpin_current_thread};
use crate::request::service::{HttpService, create};
use crate::slow::handover::Handover;
use crate::slow::queue::SlowQueues;
use crate::slow::{priority, serve, yielding};

#[derive(Clone, Debug)]
pub(crate) struct SlowParts {
    pub(crate) queues: Arc<SlowQueues>,
    pub(crate) limits: Limits,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) start: Arc<StartGate>,
}

/// A slow lane, owned by its lane. Dropping it ends the slow lane.
pub(crate) struct SlowLane {
    lane: usize,
    queues: Arc<SlowQueues>,
    thread: Option<JoinHandle<Result<(), Error>>>,
    calls: Option<UnboundedReceiver<RelayedCall>>,
}

impl SlowLane {
    pub(crate) fn start<F, T, S, E>(
        lane: &Lane,
        parts: SlowParts,
        factory: &Arc<F>,
    ) -> Result<Self, Error>
    where
        F: Fn(Lane) -> T + Send + Sync + 'static,
        T: Future<Output = Result<S, E>>,
        S: HttpService,
        E: Into<BoxError>,
    {
        let queues = Arc::clone(&parts.queues);
        let (relay, calls) = unbounded_channel();
        let (slow, factory) = (lane.slow(), Arc::clone(factory));
        let thread = thread::Builder::new()
            .name(format!("slow-{}", lane.index))
            .spawn(move || run(&slow, &parts, &*factory, relay))
            .map_err(Error::system("starting a thread"))?;
        let (thread, calls) = (Some(thread), Some(calls));
        Ok(SlowLane { lane: lane.index, queues, thread, calls })
    }

    pub(crate) fn accompany(&mut self, handover: &Rc<Handover>) {
        if let Some(calls) = self.calls.take() {
            spawn_local(blocking::relay(calls));
        }
        spawn_local(yielding::run(Rc::clone(handover)));
    }

    /// Closes the slow lane to new requests and waits until it has finished other lanes' requests.
    pub(crate) async fn finish(&self) {
        self.queues.close(self.lane);
        self.queues.ended(self.lane).await;
    }

    /// Ends the slow lane and waits for its thread, which a running handler may delay indefinitely.
    pub(crate) fn join(mut self) -> Result<(), Error> {
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

struct EndQueue<'a>(&'a SlowQueues, usize);

impl Drop for EndQueue<'_> {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}

fn run<F, T, S, E>(lane: &Lane, parts: &SlowParts, factory: &F, relay: Relay) -> Result<(), Error>
where
    F: Fn(Lane) -> T,
    T: Future<Output = Result<S, E>>,
    S: HttpService,
    E: Into<BoxError>,
{
    let SlowParts { queues, limits, lifecycle, start } = parts;
    let pass = start.pass();
    let _end = EndQueue(queues, lane.index);
    let (shared, counters) = (lane.shared(), queues.counters(lane.index));
    let _occupied =
        shared.cpu.enter_slow().map_err(Error::system("pinning a slow lane to its CPU"))?;
    Pool::new(lane.clone(), limits, Some(relay)).enter();
    let (index, park, unpark) = (lane.index, Arc::clone(queues), Arc::clone(queues));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(limits.blocking_threads)
        .on_thread_start(unpin_current_thread)
        .on_thread_park(move || park.counters(index).fall_asleep())
        .on_thread_unpark(move || unpark.counters(index).wake_up())
        .thread_name(format!("slow-{}-blocking", lane.index))
        .build_local(Default::default())
        .map_err(Error::system("starting the event loop of a slow lane"))?;
    let ended = runtime.block_on(async {
        let made = tokio::select! {
            biased;
            made = create(lane, factory, lifecycle) => made?,
            () = queues.closed(lane.index) => None,
        };
        let Some(service) = made else { return Ok(()) };
        pass.arrive();
        // This call comes last, because threads started by the service inherit the priority.
        let priority = priority::lower_own();
        counters.set_priority(priority);
        if lane.index == 0 {
            tracing::info!(priority = priority.name(), "slow lanes");
        }
        serve::run(Arc::clone(queues), lane.index, service).await;
        Ok(())
    });
    drop(runtime);
    counters.fall_asleep();
    ended
}
