//! A service with faults.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Either, Full};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use super::{Injection, Injector};

impl<S> Layer<S> for Injector {
    type Service = Faulty<S>;

    fn layer(&self, inner: S) -> Faulty<S> {
        Faulty { inner, injector: self.clone() }
    }
}

/// A service that injects faults, created by [`Injector`].
#[derive(Clone, Debug)]
pub struct Faulty<S> {
    inner: S,
    injector: Injector,
}

impl<S, A, B> Service<Request<A>> for Faulty<S>
where
    S: Service<Request<A>, Response = Response<B>> + Clone,
{
    type Response = Response<Either<B, Full<Bytes>>>;
    type Error = S::Error;
    type Future = FaultyReply<S, S::Future, A>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let Some(chosen) = self.injector.choose(request.uri().path(), request.method()) else {
            let inner = Some(self.inner.call(request));
            return FaultyReply { inner, chosen: None, injected: None, then: None };
        };
        let chosen = Arc::new(chosen);
        let faults = Arc::clone(&chosen);
        // The service that is ready handles this request, and its clone takes its place.
        let clone = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, clone);
        FaultyReply {
            inner: None,
            chosen: Some(chosen),
            injected: Some(Box::pin(async move { faults.inject().await })),
            then: Some((ready, request)),
        }
    }
}

type Injected = Pin<Box<dyn Future<Output = Option<Response<Full<Bytes>>>> + Send>>;

pin_project! {
    /// The future of [`Faulty`].
    pub struct FaultyReply<S, F, A> {
        #[pin]
        inner: Option<F>,
        chosen: Option<Arc<Injection>>,
        injected: Option<Injected>,
        then: Option<(S, Request<A>)>,
    }
}

impl<S, F, A> std::fmt::Debug for FaultyReply<S, F, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultyReply").field("chosen", &self.chosen).finish_non_exhaustive()
    }
}

impl<S, A, B> Future for FaultyReply<S, S::Future, A>
where
    S: Service<Request<A>, Response = Response<B>>,
{
    type Output = Result<Response<Either<B, Full<Bytes>>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(injected) = this.injected {
            let error = ready!(injected.as_mut().poll(cx));
            *this.injected = None;
            match (error, this.then.take()) {
                (None, Some((mut service, request))) => {
                    this.inner.set(Some(service.call(request)));
                }
                (error, _) => {
                    let mut reply = error.expect("a request waits for its fault");
                    this.chosen.iter().for_each(|chosen| chosen.sign(reply.headers_mut()));
                    return Poll::Ready(Ok(reply.map(Either::Right)));
                }
            }
        }
        let inner = this.inner.as_pin_mut().expect("a future is not polled after it is ready");
        let mut reply = ready!(inner.poll(cx))?;
        this.chosen.iter().for_each(|chosen| chosen.sign(reply.headers_mut()));
        Poll::Ready(Ok(reply.map(Either::Left)))
    }
}
