//! Runs each request through the user's service: checks it, counts it and produces the response.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use http::{Request, Response, StatusCode};
use http_body_util::Either;
use pin_project_lite::pin_project;
use tower::util::{Oneshot, ServiceExt};

use crate::base::clock::Tick;
use crate::base::error::BoxError;
use crate::message::problem::Problem;
use crate::metrics::RequestRefusal;
use crate::request::body::Incoming;
use crate::request::connection::Connection;
use crate::request::current::{self, Current};
use crate::request::in_flight::InFlightRequest;
use crate::request::lane_state::LaneState;
use crate::request::made::{OwnBody, ReplyBody, finished};
use crate::request::offload::{Away, FarBody};
use crate::request::panics;
use crate::request::pending::PendingRequest;
use crate::request::queue::{Admission, Queued, Slot, Turn};
use crate::request::refusal::{body_timed_out, crowded, expired, failure, overloaded, too_large};
use crate::request::service::{HttpService, Unserved};

pin_project! {
    pub(crate) struct Reply<S: HttpService> {
        // Declared first so that it drops before `in_flight`: a request is in flight until its
        // handler is dropped.
        #[pin]
        work: Progress<S>,
        // `None` once the response is ready.
        in_flight: Option<Box<InFlightRequest>>,
        // The time when the handler started.
        started: Tick,
        // Set while the request is waiting.
        pending: Option<PendingRequest>,
    }
}

pin_project! {
    // Large and rare variants are boxed, because a request is moved as often as its future.
    #[project = ProgressProjection]
    enum Progress<S: HttpService> {
        // The service has not received the request.
        Outside { step: Option<Step<S>> },
        // The service was not ready when it was first polled.
        Unready { future: Pin<Box<Oneshot<S, Request<Incoming>>>>, slot: Slot },
        Running { #[pin] future: S::Future, slot: Slot },
        // The slow lane serves the request.
        Away { away: Box<dyn Away> },
    }
}

/// A request that its service has not received.
enum Step<S> {
    /// The request has not been polled yet. hyper calls the service for many HTTP/2 streams at once
    /// and polls them one by one. The cost of earlier streams is therefore known when later streams
    /// are admitted. hyper may call the service for an HTTP/1.1 request while the previous response
    /// is still waiting for its client.
    Arrived(Call<S>),
    Waiting(Queued, Call<S>),
    Refused(Box<Problem>),
}

type Call<S> = Box<(S, Request<Incoming>)>;

impl<S: HttpService> Reply<S> {
    /// A plain request, to be polled at once. `has_body` means that part of the body has not
    /// arrived yet.
    pub(crate) fn plain(
        service: &S,
        lane: &Rc<LaneState>,
        connection: &Rc<Connection>,
        mut request: Unserved<'_>,
        has_body: bool,
    ) -> Self {
        let asked = request.get();
        let mut in_flight = Box::new(InFlightRequest::new(lane, connection, asked, has_body));
        in_flight.set_plain();
        if has_body {
            asked.body_mut().set_watch(in_flight.body_watch());
        }
        Reply::admitted(service, request, in_flight)
    }

    /// An admitted request, to be polled at once.
    pub(super) fn admitted(
        service: &S,
        request: Unserved<'_>,
        mut in_flight: Box<InFlightRequest>,
    ) -> Self {
        let (now, cx) = (in_flight.begun(), &mut Context::from_waker(Waker::noop()));
        let work = Progress::admitted(service.clone(), request, &mut in_flight, now, cx);
        Reply::new(in_flight, work)
    }

    /// A request that will be admitted when it is first polled.
    pub(super) fn arrived(
        service: &S,
        request: Request<Incoming>,
        in_flight: Box<InFlightRequest>,
    ) -> Self {
        let call = Box::new((service.clone(), request));
        Reply::new(in_flight, Progress::outside(Step::Arrived(call)))
    }

    /// A request that the service will not receive.
    pub(super) fn refused(
        in_flight: Box<InFlightRequest>,
        reason: RequestRefusal,
        problem: Problem,
    ) -> Self {
        let work = Progress::refused(&in_flight.lane, reason, problem);
        Reply::new(in_flight, work)
    }

    pub(super) fn set_polled(&self) {
        if let Some(in_flight) = &self.in_flight {
            in_flight.current.connection.set_unpolled(false);
        }
    }

    fn new(in_flight: Box<InFlightRequest>, work: Progress<S>) -> Self {
        Reply { started: in_flight.begun(), in_flight: Some(in_flight), pending: None, work }
    }
}

impl<S: HttpService> Progress<S> {
    fn outside(step: Step<S>) -> Self {
        Progress::Outside { step: Some(step) }
    }

    /// The state after everything that the request needed has been released.
    fn released() -> Self {
        Progress::Outside { step: None }
    }

    fn refused(lane: &LaneState, reason: RequestRefusal, problem: Problem) -> Self {
        lane.metrics().refuse_request(reason);
        Progress::failed(problem)
    }

    fn failed(problem: Problem) -> Self {
        Progress::outside(Step::Refused(Box::new(problem)))
    }

    fn is_refused(&self) -> bool {
        matches!(self, Progress::Outside { step: Some(Step::Refused(_)) })
    }

    fn shed(lane: &LaneState) -> Self {
        let problem = lane.not_started(overloaded(lane));
        Progress::refused(lane, RequestRefusal::QueueFull, problem)
    }

    #[cold]
    fn crowded_out(lane: &LaneState) -> Self {
        Progress::refused(lane, RequestRefusal::UnsentBytes, lane.not_started(crowded()))
    }

    /// Starts a request, queues it, hands it to the slow lane or rejects it.
    fn admitted(
        service: S,
        request: Unserved<'_>,
        in_flight: &mut InFlightRequest,
        now: Tick,
        cx: &mut Context<'_>,
    ) -> Self {
        let lane = &in_flight.lane;
        if lane.unsent.is_above_limit() {
            return Progress::crowded_out(lane);
        }
        if in_flight.is_slow() {
            return Progress::handed_over(request.take(), in_flight, now);
        }
        match lane.queue.admit(in_flight.expected(), in_flight.begun(), in_flight.is_bound()) {
            Admission::Start(slot) => Progress::started(service, request, slot, in_flight, now, cx),
            Admission::Wait(queued) => {
                Progress::outside(Step::Waiting(queued, Box::new((service, request.take()))))
            }
            Admission::Shed => Progress::shed(lane),
        }
    }

    #[cold]
    fn handed_over(request: Request<Incoming>, in_flight: &mut InFlightRequest, now: Tick) -> Self {
        match in_flight.hand_over(request, in_flight.lane.index, now) {
            Ok(away) => Progress::Away { away },
            Err(_) => Progress::shed(&in_flight.lane),
        }
    }

    /// Starts a queued request.
    fn turned(
        (service, request): (S, Request<Incoming>),
        turn: Turn,
        in_flight: &mut InFlightRequest,
        now: Tick,
        cx: &mut Context<'_>,
    ) -> Self {
        let (request, slot) = match turn {
            Turn::Here(slot) => (request, slot),
            Turn::There(lane) => match in_flight.hand_over(request, lane, now) {
                Ok(away) => return Progress::Away { away },
                Err(request) => (*request, Slot::take(&in_flight.lane.queue)),
            },
        };
        let mut place = None;
        let request = Unserved::new(&mut place, request);
        Progress::started(service, request, slot, in_flight, now, cx)
    }

    fn started(
        mut service: S,
        request: Unserved<'_>,
        slot: Slot,
        in_flight: &InFlightRequest,
        now: Tick,
        cx: &mut Context<'_>,
    ) -> Self {
        in_flight.start(now);
        in_flight.begin_poll(now);
        let started = guard(in_flight, || match service.poll_ready(cx) {
            Poll::Ready(Ok(())) => Ok(Ok(service.call(request.take()))),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(Err(Box::pin(service.clone().oneshot(request.take())))),
        });
        match started {
            Ok(Ok(Ok(future))) => Progress::Running { future, slot },
            Ok(Ok(Err(future))) => Progress::Unready { future, slot },
            Ok(Err(error)) => Progress::failed(failure(error.into(), in_flight)),
            Err(problem) => Progress::failed(problem),
        }
    }

    /// Admits a request that has arrived, or starts a request whose turn has come. `polled` is the
    /// start of this poll, if known.
    fn advance(
        mut self: Pin<&mut Self>,
        in_flight: &mut InFlightRequest,
        started: &mut Tick,
        polled: &mut Tick,
        cx: &mut Context<'_>,
    ) {
        let ProgressProjection::Outside { step } = self.as_mut().project() else { return };
        if let Some(Step::Arrived(call)) = step.take_if(|step| matches!(step, Step::Arrived(_))) {
            *polled = Tick::now();
            *started = *polled;
            in_flight.expect_anew();
            let (service, request) = *call;
            let mut place = None;
            let request = Unserved::new(&mut place, request);
            self.as_mut().set(Progress::admitted(service, request, in_flight, *polled, cx));
        }
        if let ProgressProjection::Outside { step } = self.as_mut().project()
            && let Some(Step::Waiting(queued, _)) = step
            && let Poll::Ready(turn) = queued.poll(cx)
            && let Some(Step::Waiting(_, call)) = step.take()
        {
            *started = *polled;
            self.set(Progress::turned(*call, turn, in_flight, *polled, cx));
        }
    }
}

impl<S: HttpService> Future for Reply<S> {
    type Output = Result<Response<ReplyBody<S::Body>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        // A response becomes ready only once.
        let Some(mut in_flight) = this.in_flight.take() else { return Poll::Pending };
        // The first poll of a request that starts on arrival follows immediately.
        let mut polled = in_flight.begun();
        if let Some(waiting) = this.pending {
            polled = Tick::now();
            if waiting.is_expired(cx) {
                let lane = &in_flight.lane;
                this.work.set(Progress::refused(lane, RequestRefusal::Timeout, expired()));
            }
        }
        // The handler may convert its body's error into any response, so it is not polled again.
        if in_flight.body_timed_out() && !this.work.is_refused() {
            this.work.set(Progress::failed(body_timed_out()));
        }
        this.work.as_mut().advance(&mut in_flight, this.started, &mut polled, cx);
        let is_refused = this.work.is_refused();
        let result = match this.work.as_mut().project() {
            ProgressProjection::Running { future, .. } => run(future, &mut in_flight, polled, cx),
            ProgressProjection::Unready { future, .. } => {
                run(future.as_mut(), &mut in_flight, polled, cx)
            }
            ProgressProjection::Outside { step } => {
                match step.take_if(|step| matches!(step, Step::Refused(_))) {
                    Some(Step::Refused(problem)) => Poll::Ready(Err(*problem)),
                    _ => Poll::Pending,
                }
            }
            ProgressProjection::Away { away } => {
                let Poll::Ready(result) = returned(&mut **away, &mut in_flight, cx) else {
                    return wait(this.pending, this.in_flight.insert(in_flight), cx);
                };
                this.work.set(Progress::released());
                *this.pending = None;
                let far = |body| Either::Right(OwnBody::Far(body));
                let response = finished(result, &in_flight, far);
                return Poll::Ready(Ok(ReplyBody::reply(response, in_flight, Tick::now())));
            }
        };
        let Poll::Ready(result) = result else {
            return wait(this.pending, this.in_flight.insert(in_flight), cx);
        };
        let now = Tick::now();
        if is_refused {
            in_flight.abandon_poll();
        } else {
            in_flight.learn(*this.started, polled, now);
        }
        // Releases the slot and everything that the handler holds.
        this.work.set(Progress::released());
        *this.pending = None;
        let response = finished(result, &in_flight, Either::Left);
        Poll::Ready(Ok(ReplyBody::reply(response, in_flight, now)))
    }
}

/// A waiting request is registered only once. Nothing can have expired since this poll began.
fn wait<T>(
    pending: &mut Option<PendingRequest>,
    in_flight: &InFlightRequest,
    cx: &mut Context<'_>,
) -> Poll<T> {
    let Current { kind, begun, allowed, .. } = &in_flight.current;
    let allowed = allowed.get().into();
    let of_lane = &in_flight.lane.pending;
    let waiting = || PendingRequest::new(of_lane, kind.get(), *begun, allowed);
    let waiting = pending.get_or_insert_with(waiting);
    waiting.allow(allowed);
    let _ = waiting.is_expired(cx);
    Poll::Pending
}

fn run<F, B, E>(
    future: Pin<&mut F>,
    in_flight: &mut InFlightRequest,
    polled: Tick,
    cx: &mut Context<'_>,
) -> Poll<Result<Response<B>, Problem>>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
{
    in_flight.begin_poll(polled);
    let made = guard(in_flight, || future.poll(cx));
    if matches!(made, Ok(Poll::Pending)) {
        in_flight.end_poll(polled);
        return Poll::Pending;
    }
    let lane = &in_flight.lane;
    // The handler's response is ignored, because it may be a 400, for example from an axum
    // extractor.
    if in_flight.body_is_too_large() {
        lane.metrics().refuse_request(RequestRefusal::BodyTooLarge);
        return Poll::Ready(Err(too_large(in_flight.body_limit())));
    }
    made?.map(|result| result.map_err(|error| failure(error.into(), in_flight)))
}

#[cold]
fn returned(
    away: &mut dyn Away,
    in_flight: &mut InFlightRequest,
    cx: &mut Context<'_>,
) -> Poll<Result<Response<FarBody>, Problem>> {
    let outcome = ready!(in_flight.poll_away(away, cx));
    let lane = &in_flight.lane;
    if in_flight.body_is_too_large() {
        lane.metrics().refuse_request(RequestRefusal::BodyTooLarge);
        return Poll::Ready(Err(too_large(in_flight.body_limit())));
    }
    Poll::Ready(match outcome {
        Some(Ok(Ok(response))) => Ok(response),
        Some(Ok(Err(error))) => Err(failure(error, in_flight)),
        // The panic is counted and logged like a panic on the lane.
        Some(Err(panic)) => guard(in_flight, || resume_unwind(panic)),
        None => Err(Problem::from(StatusCode::INTERNAL_SERVER_ERROR)),
    })
}

/// Runs service code for one request. A panic affects only this request, because the state involved
/// is not used again.
fn guard<T>(in_flight: &InFlightRequest, code: impl FnOnce() -> T) -> Result<T, Problem> {
    let lane = &in_flight.lane;
    let caught = || catch_unwind(AssertUnwindSafe(code));
    in_flight.within(caught).map_err(|_| {
        lane.metrics().panics.add(1);
        let route = lane.route(in_flight.kind());
        if panics::are_unlogged() {
            current::lending(&in_flight.request_record, || {
                tracing::error!(lane = lane.index, route, "a handler panicked");
            });
        }
        Problem::from(StatusCode::INTERNAL_SERVER_ERROR)
    })
}
