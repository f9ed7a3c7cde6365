//! A service behind a guard.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Either, Full};
use pin_project_lite::pin_project;
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

impl<S, A, B> Service<Request<A>> for Guarded<S>
where
    S: Service<Request<A>, Response = Response<B>>,
{
    type Response = Response<Either<B, Full<Bytes>>>;
    type Error = S::Error;
    type Future = GuardedReply<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        match self.guard.check(request.headers()) {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                GuardedReply { inner: Some(self.inner.call(request)), refusal: None }
            }
            Err(problem) => {
                let refusal = Some(Box::new(problem.into_response()));
                GuardedReply { inner: None, refusal }
            }
        }
    }
}

pin_project! {
    /// The future of [`Guarded`].
    #[derive(Debug)]
    pub struct GuardedReply<F> {
        #[pin]
        inner: Option<F>,
        refusal: Option<Box<Response<Full<Bytes>>>>,
    }
}

impl<F, B, E> Future for GuardedReply<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<Either<B, Full<Bytes>>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        Poll::Ready(match this.inner.as_pin_mut() {
            Some(inner) => ready!(inner.poll(cx)).map(|reply| reply.map(Either::Left)),
            None => {
                let refusal = this.refusal.take();
                let refusal = refusal.expect("a future is not polled after it is ready");
                Ok(refusal.map(Either::Right))
            }
        })
    }
}
