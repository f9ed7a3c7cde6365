//! A lane's settings and its share of the server.

use std::sync::Arc;
use std::time::Duration;

use crate::balance::inbox::Inboxes;
use crate::balance::lending::Lending;
use crate::balance::mailbox::Mailbox;
use crate::base::phase::{Lifecycle, StartGate};
use crate::base::settings::{Drain, PARK_AFTER};
use crate::request::lane_state::{RequestSettings, RequestShared};
use crate::slow::queue::SlowQueues;
use crate::slow::settings::{Cost, SlowLanes};
#[cfg(feature = "chaos")]
use crate::transport::chaos::Chaos;
use crate::transport::resting::Resting;
use crate::transport::tls::Termination;

#[derive(Clone, Debug)]
pub(crate) struct LaneSettings {
    pub(crate) requests: RequestSettings,
    pub(crate) slow_lanes: Option<SlowLanes>,
    pub(crate) costs: Vec<(String, Cost)>,
    pub(crate) plain_requests: bool,
    /// Idle time before a connection is parked.
    pub(crate) park_after: Option<Duration>,
    pub(crate) drain: Drain,
    #[cfg(feature = "chaos")]
    pub(crate) chaos: Option<Chaos>,
}

impl Default for LaneSettings {
    fn default() -> Self {
        LaneSettings {
            requests: RequestSettings::default(),
            slow_lanes: Some(SlowLanes::default()),
            costs: Vec::new(),
            plain_requests: true,
            park_after: Some(PARK_AFTER),
            drain: Drain::default(),
            #[cfg(feature = "chaos")]
            chaos: None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ServerParts {
    pub(crate) requests: RequestShared,
    pub(crate) slow: Option<Arc<SlowQueues>>,
    /// Set if the port uses TLS.
    pub(crate) tls: Option<Arc<Termination>>,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) start: Arc<StartGate>,
    pub(crate) mailboxes: Arc<[Mailbox<Resting>]>,
    /// Set if lanes lend connections to each other.
    pub(crate) lending: Option<Arc<Lending>>,
    /// The inboxes of the lanes, if an acceptor fills them.
    pub(crate) inboxes: Option<Arc<Inboxes>>,
}
