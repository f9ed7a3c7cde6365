//! The wait of a lane for a request that it handed over.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Request;
use tokio::sync::oneshot;

use crate::base::clock::{Millis, Tick};
use crate::request::body::Incoming;
use crate::request::current::{self, Current};
use crate::request::guest::{Guest, Link};
use crate::request::in_flight::InFlightRequest;
use crate::request::slow::job::Job;
use crate::request::slow::job::{Answer, Outcome};
use crate::request::slow::queue::Ticket;
use crate::request::urgent::Urgent;

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
    /// Hands a request over to the slow lane of the lane `to`. The request comes back if that cannot
    /// take it.
    pub(crate) fn hand_over(
        request: Request<Incoming>,
        in_flight: &mut InFlightRequest,
        to: usize,
        now: Tick,
    ) -> Result<Box<Away>, Box<Request<Incoming>>> {
        let lane = Rc::clone(&in_flight.lane);
        let Some(queues) = lane.slow.as_ref() else { return Err(Box::new(request)) };
        let (answer, receiver) = oneshot::channel();
        let guest = guest_of(&in_flight.current);
        let link = Arc::clone(&guest.link);
        let request_record = current::named_of(&in_flight.request_record);
        let expected = in_flight.expected();
        let home = lane.index;
        let job = Box::new(Job { home, request, guest, request_record, expected, answer });
        let ticket = queues.push(to, job, now).map_err(|job| Box::new(job.request))?;
        in_flight.delegate();
        let urgent = lane.urgent.enter(in_flight.begun(), link.allowed());
        Ok(Box::new(Away { answer: receiver, link, ticket, _urgent: urgent, answered: false }))
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

/// What the handler gets of the current request.
fn guest_of(current: &Current) -> Guest {
    let connection = &current.connection;
    let lane = connection.lane();
    Guest {
        info: connection.info(),
        ip: connection.client.ip(),
        trust: Arc::clone(&lane.trust),
        routes: Arc::clone(lane.routes.all()),
        begun: current.begun,
        kind: current.kind.get(),
        body: current.body.as_ref().map(|(_, watch)| Arc::clone(watch)),
        link: Arc::new(Link::new(Millis::into(current.allowed.get()))),
        polled: Cell::new(current.begun),
        route: RefCell::default(),
        refused: Cell::new(None),
    }
}
