//! Each request on its way through the user's service: checked, counted, answered.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderValue};
use http::{Method, Request, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Either, Full};
use pin_project_lite::pin_project;
use tower::Service;
use tower::util::{Oneshot, ServiceExt};

use crate::body::{BodyError, Incoming};
use crate::connection::{Connection, Order};
use crate::lane::LaneState;
use crate::problem::Problem;
use crate::shared::Phase;

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// What [`Server::serve`](crate::Server::serve) asks of a service, under one name.
pub(crate) trait HttpService:
    Service<Request<Incoming>, Response = Response<Self::Body>, Error: Into<BoxError>> + Clone + 'static
{
    type Body: Body<Data = Bytes, Error: Into<BoxError>> + 'static;
}

impl<S, B> HttpService for S
where
    S: Service<Request<Incoming>, Response = Response<B>, Error: Into<BoxError>> + Clone + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + 'static,
{
    type Body = B;
}

/// The user's service for one connection.
pub(crate) struct Dispatch<S> {
    pub(crate) service: S,
    pub(crate) connection: Rc<Connection>,
    pub(crate) lane: Rc<LaneState>,
}

impl<S: HttpService> hyper::service::Service<Request<hyper::body::Incoming>> for Dispatch<S> {
    type Response = Response<ReplyBody<S::Body>>;
    type Error = Infallible;
    type Future = Reply<Oneshot<S, Request<Incoming>>>;

    fn call(&self, request: Request<hyper::body::Incoming>) -> Self::Future {
        let ticket = Ticket::new(&self.lane, &self.connection, &request);
        if let Some(problem) = refusal(&request, &self.lane) {
            return Reply { ticket: Some(ticket), work: Work::Refused { problem: Some(problem) } };
        }
        let limit = self.lane.limits.body_bytes;
        let request = request.map(|body| Incoming::new(body, limit));
        let future = self.service.clone().oneshot(request);
        Reply { ticket: Some(ticket), work: Work::Running { future } }
    }
}

/// Why a request may not reach the service, if so.
fn refusal(request: &Request<hyper::body::Incoming>, lane: &LaneState) -> Option<Problem> {
    // RFC 9112 section 3.2: a server answers 400 unless there is exactly one Host field.
    if request.version() == Version::HTTP_11
        && request.headers().get_all(HOST).iter().take(2).count() != 1
    {
        let problem = Problem::new(StatusCode::BAD_REQUEST, "host");
        return Some(problem.detail("an HTTP/1.1 request needs exactly one Host field"));
    }
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if target > lane.limits.uri_bytes {
        let problem = Problem::from(StatusCode::URI_TOO_LONG);
        let allowed = lane.limits.uri_bytes;
        return Some(problem.detail(format!("the target may have {allowed} bytes at most")));
    }
    if request.body().size_hint().lower() > lane.limits.body_bytes {
        return Some(too_large(lane));
    }
    None
}

fn too_large(lane: &LaneState) -> Problem {
    let allowed = lane.limits.body_bytes;
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large")
        .detail(format!("a request body may have {allowed} bytes at most"))
}

/// Answers what went wrong inside the service, and logs what the client must not see.
fn failure(error: BoxError, lane: &LaneState) -> Problem {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error.as_ref());
    while let Some(error) = cause {
        match error.downcast_ref() {
            Some(BodyError::TooLarge) => return too_large(lane),
            Some(BodyError::Read(error)) => {
                tracing::debug!(lane = lane.index, %error, "a request body could not be read");
                return Problem::from(StatusCode::BAD_REQUEST);
            }
            None => cause = error.source(),
        }
    }
    tracing::error!(lane = lane.index, %error, "a service returned an error");
    Problem::from(StatusCode::INTERNAL_SERVER_ERROR)
}

/// A request in flight: counted from here until it is dropped.
struct Ticket {
    lane: Rc<LaneState>,
    connection: Rc<Connection>,
    route: usize,
    method: Method,
    version: Version,
    begun: Instant,
    status: Option<StatusCode>,
}

impl Ticket {
    fn new<B: Body>(
        lane: &Rc<LaneState>,
        connection: &Rc<Connection>,
        request: &Request<B>,
    ) -> Self {
        connection.begin_request(!request.body().is_end_stream());
        lane.metrics().in_flight.add(1);
        Ticket {
            route: lane.shared.routes.find(request.uri().path()),
            method: request.method().clone(),
            version: request.version(),
            begun: Instant::now(),
            status: None,
            lane: Rc::clone(lane),
            connection: Rc::clone(connection),
        }
    }

    /// Finishes the head of a reply and hangs this ticket on its body.
    fn reply<B>(mut self, response: Response<Either<B, Full<Bytes>>>) -> Response<ReplyBody<B>>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let (mut head, mut body) = response.into_parts();
        self.status = Some(head.status);
        if self.method == Method::HEAD {
            // RFC 9110 section 9.3.2: the fields of the GET, without its body.
            if !matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
                && let Some(length) = body.size_hint().exact()
                && !head.headers.contains_key(CONTENT_LENGTH)
            {
                head.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
            }
            body = Either::Right(Full::default());
        }
        self.lane.sign(&mut head.headers);
        if self.lane.phase.get() != Phase::Serving {
            if self.version < Version::HTTP_2 {
                head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
            } else {
                self.connection.tell(Order::Finish);
            }
        }
        Response::from_parts(head, ReplyBody { inner: body, ticket: self })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let metrics = self.lane.metrics();
        metrics.in_flight.sub(1);
        metrics.finish(self.route, &self.method, self.status, self.begun.elapsed());
        self.connection.end_request();
    }
}

pin_project! {
    /// The reply to one request, being made.
    pub(crate) struct Reply<F> {
        ticket: Option<Ticket>,
        #[pin]
        work: Work<F>,
    }
}

pin_project! {
    #[project = WorkProjection]
    enum Work<F> {
        Refused { problem: Option<Problem> },
        Running { #[pin] future: F },
    }
}

impl<F, B, E> Future for Reply<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Output = Result<Response<ReplyBody<B>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let lane = &this.ticket.as_ref().expect("a future is not polled after it is ready").lane;
        let result = match this.work.project() {
            WorkProjection::Refused { problem } => {
                Err(problem.take().expect("a future is not polled after it is ready"))
            }
            // A panic is this request's alone: nothing of the service's future is used again.
            WorkProjection::Running { future } => {
                match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
                    Ok(Poll::Pending) => return Poll::Pending,
                    Ok(Poll::Ready(Ok(response))) => Ok(response),
                    Ok(Poll::Ready(Err(error))) => Err(failure(error.into(), lane)),
                    Err(_) => {
                        lane.metrics().panics.add(1);
                        tracing::error!(lane = lane.index, "a handler panicked");
                        Err(Problem::from(StatusCode::INTERNAL_SERVER_ERROR))
                    }
                }
            }
        };
        let response = match result {
            Ok(response) => response.map(Either::Left),
            Err(problem) => problem.into_response().map(Either::Right),
        };
        let ticket = this.ticket.take().expect("taken only here");
        Poll::Ready(Ok(ticket.reply(response)))
    }
}

pin_project! {
    /// The body of a reply; its request ends when it is dropped.
    pub(crate) struct ReplyBody<B> {
        #[pin]
        inner: Either<B, Full<Bytes>>,
        ticket: Ticket,
    }
}

impl<B> Body for ReplyBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.project();
        let inner = this.inner;
        catch_unwind(AssertUnwindSafe(|| inner.poll_frame(cx))).unwrap_or_else(|_| {
            let lane = &this.ticket.lane;
            lane.metrics().panics.add(1);
            tracing::error!(lane = lane.index, "the body of a reply panicked");
            Poll::Ready(Some(Err("the body of a reply panicked".into())))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
