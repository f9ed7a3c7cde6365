//! Hands a lane's requests to slow lanes and waits for the results.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use tokio::sync::oneshot;

use crate::base::clock::Tick;
use crate::base::registry::{Entry, Registry};
use crate::load::lane::{Lane, LaneShared};
use crate::request::body::Incoming;
use crate::request::offload::{Away, FarAnswer, HandedOver, Offload};
use crate::request::routes::LaneRoutes;
use crate::slow::current::{FarRequest, Link};
use crate::slow::job::Job;
use crate::slow::queue::{SlowQueues, Ticket};
use crate::slow::settings::Cost;

/// A lane's access to the slow lanes, on the lane's thread.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(super) queues: Arc<SlowQueues>,
    pub(super) lane: Lane,
    /// For each handed-over request, the time at which half of its time limit has passed.
    pub(super) half_times: Registry<Tick>,
}

impl Handover {
    pub(crate) fn new(queues: &Arc<SlowQueues>, lane: &Lane) -> Rc<Self> {
        let (queues, lane) = (Arc::clone(queues), lane.clone());
        Rc::new(Handover { queues, lane, half_times: Registry::default() })
    }
}

impl Offload for Handover {
    fn is_idle(&self) -> bool {
        self.queues.counters(self.lane.index).is_idle()
    }

    fn relief(&self, work: Duration) -> Option<usize> {
        let is_long = work >= self.queues.settings.backlog();
        is_long.then(|| self.queues.idle_lane(self.lane.index)).flatten()
    }

    fn hand_over(
        &self,
        handed_over: HandedOver,
        to: usize,
        now: Tick,
    ) -> Result<Box<dyn Away>, Box<Request<Incoming>>> {
        let (begun, allowed) = (handed_over.facts.begun, handed_over.allowed);
        let (answer, receiver) = oneshot::channel();
        let current = FarRequest::new(handed_over.facts, allowed);
        let link = Arc::clone(&current.link);
        let job = Box::new(Job {
            home: self.lane.index,
            request: handed_over.request,
            current,
            record: handed_over.record,
            expected: handed_over.expected,
            answer,
        });
        let ticket = self.queues.push(to, job, now).map_err(|job| Box::new(job.request))?;
        let half_time = begun.later((allowed / 2).as_nanos() as u64);
        Ok(Box::new(AwayRequest {
            answer: receiver,
            link,
            ticket,
            _half_time: self.half_times.enter(half_time),
            answered: false,
        }))
    }
}

/// A request that its lane handed over. Dropping this makes the slow lane drop the request.
#[derive(Debug)]
struct AwayRequest {
    answer: oneshot::Receiver<Box<FarAnswer>>,
    link: Arc<Link>,
    ticket: Ticket,
    _half_time: Entry<Tick>,
    answered: bool,
}

impl Away for AwayRequest {
    fn allowed(&self) -> Duration {
        self.link.allowed()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<FarAnswer>> {
        self.link.lane.register(cx.waker());
        let answer = Pin::new(&mut self.answer).poll(cx);
        self.answered = answer.is_ready();
        answer.map(|answer| answer.ok().map(|answer| *answer))
    }
}

impl Drop for AwayRequest {
    fn drop(&mut self) {
        if !self.answered {
            self.ticket.withdraw();
        }
    }
}

/// Sets the route costs declared by the service, so that the lane knows them from the start.
pub(crate) fn fix_costs(shared: &LaneShared, routes: &LaneRoutes, costs: &[(String, Cost)]) {
    for (template, cost) in costs.iter().filter(|(_, cost)| *cost != Cost::Auto) {
        let route = routes.index_of(template);
        if routes.name(route) == template {
            shared.load_table.fix(route, *cost == Cost::Expensive);
        }
    }
}
