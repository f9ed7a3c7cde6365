//! The service that a lane calls: how it is created, and how it receives requests.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower::Service;

use crate::base::error::{BoxError, Error};
use crate::base::phase::{Lifecycle, Phase};
use crate::load::lane::Lane;
use crate::request::body::Incoming;

/// The bounds that [`Server::serve`](crate::Server::serve) requires of a `tower::Service`. Every
/// type that meets these bounds implements this trait.
pub trait HttpService:
    Service<Request<Incoming>, Response = Response<Self::Body>, Error: Into<BoxError>> + Clone + 'static
{
    /// The body of the service's responses.
    type Body: Body<Data = Bytes, Error: Into<BoxError>> + 'static;
}

impl<S, B> HttpService for S
where
    S: Service<Request<Incoming>, Response = Response<B>, Error: Into<BoxError>> + Clone + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + 'static,
{
    type Body = B;
}

/// A request that its service has not received. It stays where it was read until the service takes
/// it, because repeated moves would take longer than reading it.
#[derive(Debug)]
pub(crate) struct Unserved<'a>(&'a mut Option<Request<Incoming>>);

/// [`Unserved::new`] fills the place, and only [`Unserved::take`] empties it, which consumes the
/// type.
const FILLED: &str = "the place of an unserved request is filled";

impl<'a> Unserved<'a> {
    #[inline]
    pub(crate) fn new(
        place: &'a mut Option<Request<Incoming>>,
        request: Request<Incoming>,
    ) -> Self {
        *place = Some(request);
        Unserved(place)
    }

    #[inline]
    pub(crate) fn get(&mut self) -> &mut Request<Incoming> {
        self.0.as_mut().expect(FILLED)
    }

    #[inline]
    pub(crate) fn take(self) -> Request<Incoming> {
        self.0.take().expect(FILLED)
    }
}

/// `None` if a drain began before the service was ready.
pub(crate) async fn create<F, T, S, E>(
    lane: &Lane,
    factory: &F,
    lifecycle: &Lifecycle,
) -> Result<Option<S>, Error>
where
    F: Fn(Lane) -> T,
    T: Future<Output = Result<S, E>>,
    E: Into<BoxError>,
{
    let failed = |source| Error::Factory { lane: lane.index, source };
    let mut made = pin!(async { factory(lane.clone()).await });
    let made = poll_fn(|cx| {
        let caught = catch_unwind(AssertUnwindSafe(|| made.as_mut().poll(cx)));
        caught.map_or_else(
            |panic| Poll::Ready(Err(failed(message(&*panic)))),
            |polled| polled.map_err(|error| failed(error.into())),
        )
    });
    let mut phase = lifecycle.watch();
    tokio::select! {
        // If the service is ready immediately, it starts serving, because clients may already be
        // waiting for it.
        biased;
        made = made => made.map(Some),
        _ = phase.wait_for(|phase| *phase > Phase::Serving) => Ok(None),
    }
}

fn message(panic: &(dyn Any + Send)) -> BoxError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("without a message")).into()
}
