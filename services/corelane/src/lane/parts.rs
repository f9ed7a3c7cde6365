//! What a lane is made of: its settings, its part of the server, and its service.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::inbox::Inboxes;
use super::moving::mailbox::Mailbox;
use crate::base::error::{BoxError, Error};
use crate::base::phase::{Lifecycle, Phase, StartGate};
use crate::base::settings::{Drain, Moving, PARK_AFTER};
use crate::load::lane::Lane;
use crate::request::lane_state::{RequestSettings, RequestShared};
#[cfg(feature = "chaos")]
use crate::transport::chaos::Chaos;
use crate::transport::lending::Lending;
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
    /// Set if lanes lend connections to each other.
    pub(crate) lending: Option<Arc<Lending>>,
    /// The inboxes of the lanes, if an acceptor fills them.
    pub(crate) inboxes: Option<Arc<Inboxes>>,
}

/// Creates the lane's service. `None`: a drain began before it was ready.
pub(crate) async fn create<F, T, S, E>(
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
