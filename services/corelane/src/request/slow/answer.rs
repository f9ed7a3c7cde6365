//! The answer of a slow lane, and the wait of its lane for it.

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tokio::sync::oneshot;

use crate::base::clock::Tick;
use crate::base::error::BoxError;
use crate::load::tail::LongestPoll;
use crate::metrics::RequestRefusal;
use crate::request::body::Incoming;
use crate::request::current;
use crate::request::in_flight::InFlightRequest;
use crate::request::slow::body::FarBody;
use crate::request::slow::guest::{Guest, Link};
use crate::request::slow::job::Job;
use crate::request::slow::queue::Ticket;
use crate::request::urgent::Urgent;

/// What the handler returned, or the panic that ended it.
pub(crate) type Outcome = Result<Result<Response<FarBody>, BoxError>, Box<dyn Any + Send>>;

/// The answer of a slow lane to one request.
pub(crate) struct Answer {
    pub(super) outcome: Outcome,
    /// When the handler started.
    pub(super) started: Tick,
    /// CPU time of the handler in nanoseconds.
    pub(super) held: u64,
    pub(super) longest: LongestPoll,
    /// The template that the handler named.
    pub(super) route: Option<Box<str>>,
    /// Why the limits of its route reject it.
    pub(super) refused: Option<RequestRefusal>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("held", &self.held).finish_non_exhaustive()
    }
}

/// A request that its lane handed over. The slow lane drops it when this is dropped.
#[derive(Debug)]
pub(crate) struct Away {
    answer: oneshot::Receiver<Box<Answer>>,
    link: Arc<Link>,
    ticket: Ticket,
    _urgent: Urgent,
    answered: bool,
}

impl Away {
    /// Hands a request over to the slow lane. `None`: it cannot take it.
    pub(crate) fn hand_over(
        request: Request<Incoming>,
        in_flight: &mut InFlightRequest,
        now: Tick,
    ) -> Option<Box<Away>> {
        let lane = Rc::clone(&in_flight.lane);
        let queues = lane.slow.as_ref()?;
        let (answer, receiver) = oneshot::channel();
        let guest = Guest::of(&in_flight.current);
        let link = Arc::clone(&guest.link);
        let request_record = current::named_of(&in_flight.request_record);
        let expected = in_flight.expected();
        let job = Box::new(Job { request, guest, request_record, expected, answer });
        let ticket = queues.push(lane.index, job, now)?;
        in_flight.delegate();
        let urgent = lane.urgent.enter(in_flight.begun(), link.allowed());
        Some(Box::new(Away { answer: receiver, link, ticket, _urgent: urgent, answered: false }))
    }

    /// Waits for the answer; `None` if the slow lane has ended.
    pub(crate) fn poll(
        &mut self,
        in_flight: &mut InFlightRequest,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Outcome>> {
        self.link.lane.register(cx.waker());
        in_flight.current.allowed.set(self.link.allowed().into());
        let Poll::Ready(answer) = Pin::new(&mut self.answer).poll(cx) else { return Poll::Pending };
        self.answered = true;
        Poll::Ready(answer.ok().map(|answer| {
            let Answer { outcome, started, held, longest, route, refused } = *answer;
            in_flight.start(started);
            in_flight.settle(route.as_deref(), refused);
            in_flight.learn_of_slow(started, held, longest);
            outcome
        }))
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if !self.answered {
            self.ticket.withdraw();
        }
    }
}
