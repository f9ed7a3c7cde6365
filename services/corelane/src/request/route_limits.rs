//! Per-route limits: a tower layer around part of a service.

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

/// Limits for requests behind this layer, which replace the server's limits. `None` keeps the
/// server's limit.
///
/// With axum, add it as a layer to a route or to a nested `Router`. If two layers are nested, the
/// inner layer applies. If the header already shows that a request must be rejected, the service
/// behind the layer does not receive it. Without a server, for example when you test the service,
/// the limits apply to the header and to bodies of known length.
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
    /// Maximum bytes of a request body, above or below
    /// [`Limits::body_bytes`](crate::Limits::body_bytes). A larger `Content-Length` gets `413`. A
    /// larger chunked body fails with [`BodyError::TooLarge`](crate::BodyError), and the client
    /// gets `413` if the response head is not ready yet.
    ///
    /// If any layer in the process raises the limit, every route is called with bodies of any size.
    /// A route without the layer then fails when it reads a body that is too large.
    pub body_bytes: Option<u64>,
    /// Maximum bytes of a request's header section. Requests with a larger header get `431`. Only
    /// limits below [`Limits::header_bytes`](crate::Limits::header_bytes) have an effect, because
    /// the server reads the header before it knows the route. HTTP/2 adds 32 bytes per field (RFC
    /// 9113 section 6.5.2).
    pub header_bytes: Option<usize>,
    /// Maximum time from a request's header to its response head, above or below
    /// [`Timeouts::request`](crate::Timeouts::request). This limit determines
    /// [`deadline`](crate::deadline) and the time of the `503`, which may be up to a second late.
    /// The time in the queue before the call counts towards the limit.
    pub request: Option<Duration>,
}

impl RouteLimits {
    /// Applies the limits to the request, which is the current request if there is a server.
    /// Returns the reason to reject the request, if any.
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

/// A service with its own limits, created by [`RouteLimits`].
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
