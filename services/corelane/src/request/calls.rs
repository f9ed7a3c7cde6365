//! Names the route of each gRPC call after its path.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::header::CONTENT_TYPE;
use http::uri::PathAndQuery;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use crate::request::current::set_route;

/// A layer that names the route of each gRPC call after its path, such as `/shop.Orders/Place`, as
/// [`set_route`] would. Put it around tonic's `Routes` or around a router that also serves pages.
/// Only gRPC responses are recorded.
///
/// Calls to unknown methods are recorded as `other`, so clients cannot add names.
///
/// ```
/// use corelane::LearnCalls;
/// use tower::Layer;
///
/// # fn routes() {}
/// let service = LearnCalls.layer(routes());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LearnCalls;

impl<S> Layer<S> for LearnCalls {
    type Service = CallLearner<S>;

    fn layer(&self, inner: S) -> CallLearner<S> {
        CallLearner { inner }
    }
}

/// A service that names gRPC calls after their paths, created by [`LearnCalls`].
#[derive(Clone, Copy, Debug)]
pub struct CallLearner<S> {
    inner: S,
}

impl<S, A, B> Service<Request<A>> for CallLearner<S>
where
    S: Service<Request<A>, Response = Response<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = LearntCall<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let path = request.uri().path_and_query().cloned();
        LearntCall { path, future: self.inner.call(request) }
    }
}

pin_project! {
    /// The future of [`CallLearner`].
    #[derive(Debug)]
    pub struct LearntCall<F> {
        path: Option<PathAndQuery>,
        #[pin]
        future: F,
    }
}

impl<F, B, E> Future for LearntCall<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let reply = ready!(this.future.poll(cx));
        if let (Ok(reply), Some(path)) = (&reply, this.path)
            && is_implemented(reply)
        {
            set_route(path.path());
        }
        Poll::Ready(reply)
    }
}

/// Whether a gRPC service that knows the method sent this response. The response to an unknown
/// method is a head that contains the status.
fn is_implemented<B>(reply: &Response<B>) -> bool {
    let kind = reply.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes());
    let status = reply.headers().get("grpc-status").map(|status| status.as_bytes());
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc")) && status != Some(b"12")
}
