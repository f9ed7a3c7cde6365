//! Limits of one route: a tower layer around the part of a service that they hold for.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body::Body;
use http_body_util::{Either, Full};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use crate::message::problem::Problem;
use crate::metrics::RequestRefusal;
use crate::request::current;
use crate::request::refusal::{
    header_bytes, header_list_bytes, header_too_large, raise_largest_body, too_large,
};

/// Limits for the requests behind this layer, instead of those of the server. `None` keeps the
/// server's limit.
///
/// With axum, use it as the layer of a route or of a nested `Router`. Of two layers around one another
/// the inner one decides. A request that is rejected does not reach the service behind the layer, if
/// that is known from its header. Without a server, such as in a test of the service, the limits hold
/// for the header and for a body of known length.
///
/// ```
/// use std::time::Duration;
///
/// use axum::Router;
/// use axum::extract::DefaultBodyLimit;
/// use axum::routing::post;
/// use corelane::RouteLimits;
///
/// let large = RouteLimits {
///     body_bytes: Some(1 << 30),
///     request: Some(Duration::from_secs(600)),
///     ..RouteLimits::default()
/// };
/// let router: Router = Router::new()
///     .route("/upload", post(async |body: String| body.len().to_string()))
///     // The extractors of axum have a limit of their own.
///     .layer(DefaultBodyLimit::disable())
///     .layer(large);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteLimits {
    /// Bytes of a request body, instead of [`Limits::body_bytes`](crate::Limits::body_bytes): more or
    /// fewer. A larger `Content-Length` is answered `413`. A larger chunked body fails with
    /// [`BodyError::TooLarge`](crate::BodyError), which is answered `413` too if the head of the reply
    /// is not ready.
    ///
    /// Where a layer of the process raises the limit, every route is called with a body of any size. A
    /// route without the layer then fails when it reads one that is too large.
    pub body_bytes: Option<u64>,
    /// Bytes of a request's header section; more are answered `431`. Only a lower limit than
    /// [`Limits::header_bytes`](crate::Limits::header_bytes) has an effect, because the server has read
    /// the header before it knows the route. HTTP/2 adds 32 for each field (RFC 9113 section 6.5.2).
    pub header_bytes: Option<usize>,
    /// Longest time from the header of a request to the head of its reply, instead of
    /// [`Timeouts::request`](crate::Timeouts::request): more or less. [`deadline`](crate::deadline)
    /// follows, also the reply `503`, which may be up to a second late. The time in the queue before
    /// the call counts.
    pub request: Option<Duration>,
}

impl RouteLimits {
    /// Applies the limits to a request, the current one if there is a server. The reason to reject it,
    /// if there is one.
    fn refusal<B: Body>(&self, request: &Request<B>) -> Option<(RequestRefusal, Problem)> {
        if let Some(allowed) = self.header_bytes {
            let is_list = request.version() == Version::HTTP_2;
            let bytes = if is_list { header_list_bytes(request) } else { header_bytes(request) };
            if bytes > allowed {
                return Some((RequestRefusal::HeaderTooLarge, header_too_large(allowed, is_list)));
            }
        }
        current::set_limits(self.body_bytes, self.request);
        let allowed = self.body_bytes?;
        let is_larger = request.body().size_hint().lower() > allowed;
        is_larger.then(|| (RequestRefusal::BodyTooLarge, too_large(allowed)))
    }
}

impl<S> Layer<S> for RouteLimits {
    type Service = LimitedRoute<S>;

    fn layer(&self, inner: S) -> LimitedRoute<S> {
        raise_largest_body(self.body_bytes.unwrap_or(0));
        LimitedRoute { inner, limits: *self }
    }
}

/// A service with limits of its own; made by [`RouteLimits`].
#[derive(Clone, Copy, Debug)]
pub struct LimitedRoute<S> {
    inner: S,
    limits: RouteLimits,
}

impl<S, A, B> Service<Request<A>> for LimitedRoute<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    A: Body,
{
    type Response = Response<Either<B, Full<Bytes>>>;
    type Error = S::Error;
    type Future = LimitedReply<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        match self.limits.refusal(&request) {
            None => LimitedReply { work: Work::Called { future: self.inner.call(request) } },
            Some((reason, problem)) => {
                current::refuse(reason);
                LimitedReply { work: Work::Refused { problem: Some(Box::new(problem)) } }
            }
        }
    }
}

pin_project! {
    /// The future of [`LimitedRoute`].
    #[derive(Debug)]
    pub struct LimitedReply<F> {
        #[pin]
        work: Work<F>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = WorkProjection]
    enum Work<F> {
        Called { #[pin] future: F },
        Refused { problem: Option<Box<Problem>> },
    }
}

impl<F, B, E> Future for LimitedReply<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<Either<B, Full<Bytes>>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match self.project().work.project() {
            WorkProjection::Called { future } => {
                ready!(future.poll(cx)).map(|reply| reply.map(Either::Left))
            }
            WorkProjection::Refused { problem } => {
                let problem = problem.take().expect("a future is not polled after it is ready");
                Ok(problem.into_response().map(Either::Right))
            }
        })
    }
}
