//! A service behind a guard.

use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::{Either, MapOk, TryFutureExt};
use http::{Request, Response};
use http_body_util::{Either as Body, Full};
use tower::{Layer, Service};

use super::Guard;

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { inner, guard: self.clone() }
    }
}

/// A service that only requests with a valid token reach; made by [`Guard`].
#[derive(Clone, Debug)]
pub struct Guarded<S> {
    inner: S,
    guard: Guard,
}

/// The reply of the service, or the one that rejects the request.
type Reply<B> = Response<Body<B, Full<Bytes>>>;

impl<S, A, B> Service<Request<A>> for Guarded<S>
where
    S: Service<Request<A>, Response = Response<B>>,
{
    type Response = Reply<B>;
    type Error = S::Error;
    type Future =
        Either<MapOk<S::Future, fn(Response<B>) -> Reply<B>>, Ready<Result<Reply<B>, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        match self.guard.check(request.headers()) {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                let allowed: fn(Response<B>) -> Reply<B> = |reply| reply.map(Body::Left);
                Either::Left(self.inner.call(request).map_ok(allowed))
            }
            Err(problem) => Either::Right(ready(Ok(problem.into_response().map(Body::Right)))),
        }
    }
}
