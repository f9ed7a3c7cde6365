//! State shared by a server's threads.

use std::sync::Arc;

use crate::balance::inbox::Inboxes;
use crate::balance::lending::Lending;
use crate::balance::mailbox::Mailbox;
use crate::balance::settings::Placement;
use crate::base::phase::{Lifecycle, Phase, StartGate};
use crate::lane::parts::ServerParts;
use crate::load::lane::LaneGroup;
use crate::load::report::Published;
use crate::metrics::PlanCounts;
use crate::os::cpu::{CpuPlan, Cpus};
use crate::os::listener_group::ListenerGroup;
use crate::request::lane_state::RequestShared;
use crate::request::routes::Routes;
use crate::server::dependency::Dependencies;
use crate::server::settings::Settings;
use crate::slow::counters::SlowCounters;
use crate::slow::queue::SlowQueues;
use crate::transport::tls::Termination;

#[derive(Debug)]
pub(crate) struct Shared {
    /// The plan at startup. [`Lane::cpu`](crate::Lane::cpu) shows the current state.
    pub(crate) plan: CpuPlan,
    pub(crate) cpus: Cpus,
    pub(crate) lanes: Arc<LaneGroup>,
    pub(crate) parts: ServerParts,
    pub(crate) listeners: ListenerGroup,
    pub(crate) plans: PlanCounts,
    pub(crate) dependencies: Arc<Dependencies>,
}

impl Shared {
    pub(crate) fn new(
        plan: CpuPlan,
        cpus: Cpus,
        routes: Routes,
        tls: Option<Termination>,
        settings: &Settings,
    ) -> Arc<Self> {
        let of_address = settings.limits().connections_per_address;
        let count = plan.lanes.len();
        let least_loaded = settings.placement == Placement::LeastLoaded;
        let slow_lanes = settings.lane.slow_lanes;
        let lanes = LaneGroup::new(
            &plan.lanes,
            routes.rows(),
            of_address,
            slow_lanes.map(|slow| slow.bound),
        );
        let (limits, timeout) = (settings.limits(), settings.timeouts().request);
        let queues = |slow_lanes| SlowQueues::new(slow_lanes, &lanes, limits, timeout);
        let slow = slow_lanes.map(queues);
        let lends = slow.is_some();
        #[cfg(feature = "chaos")]
        let lends = lends || settings.lane.chaos.is_some_and(|chaos| chaos.lend);
        let lends = lends && count > 1 && settings.lane.plain_requests;
        let services = count * if slow.is_some() { 2 } else { 1 };
        Arc::new(Shared {
            lanes,
            plan,
            cpus,
            parts: ServerParts {
                requests: RequestShared {
                    routes: Arc::new(routes),
                    load_report: Arc::new(Published::default()),
                    secure: tls.is_some(),
                    trust: Arc::new(settings.trust.clone()),
                },
                slow,
                tls: tls.map(Arc::new),
                lifecycle: Arc::new(Lifecycle::new()),
                start: Arc::new(StartGate::new(services)),
                lending: lends.then(|| Lending::new(count)),
                mailboxes: (0..count).map(|_| Mailbox::new()).collect(),
                inboxes: least_loaded.then(|| Arc::new(Inboxes::new(count))),
            },
            listeners: ListenerGroup::default(),
            plans: PlanCounts::default(),
            dependencies: Arc::default(),
        })
    }

    pub(crate) fn routes(&self) -> &Routes {
        &self.parts.requests.routes
    }

    pub(crate) fn tls(&self) -> Option<&Termination> {
        self.parts.tls.as_deref()
    }

    pub(crate) fn inboxes(&self) -> Option<&Inboxes> {
        self.parts.inboxes.as_deref()
    }

    /// Counters of the lane's slow lane, if it has one.
    pub(crate) fn slow(&self, lane: usize) -> Option<&SlowCounters> {
        self.parts.slow.as_ref().map(|queues| queues.counters(lane))
    }

    pub(crate) fn phase(&self) -> Phase {
        self.parts.lifecycle.phase()
    }

    pub(crate) fn begin_drain(&self) {
        self.parts.lifecycle.begin_drain();
        self.lanes.begin_drain();
    }

    pub(crate) fn advance(&self, to: Phase) {
        if to >= Phase::Closing {
            self.listeners.release();
            self.lanes.begin_drain();
        }
        self.parts.lifecycle.advance(to);
    }

    /// Whether every lane is listening, no drain has started, and no required dependency is down.
    pub(crate) fn ready(&self) -> bool {
        self.phase() == Phase::Serving
            && self.lanes.iter().all(|lane| lane.is_listening())
            && self.dependencies.allow_ready()
    }
}
