//! The client of one lane: its endpoints and its calls.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use http_body_util::{BodyExt, Empty, Limited};
use tokio::sync::watch;

use crate::body::Body;
use crate::call::Call;
use crate::connect::TlsState;
use crate::error::{BoxError, Error, ErrorKind};
use crate::lane::Lane;
use crate::shared::{Known, Shared};

/// Maximum size of a body that [`Client::fetch`] reads.
const FETCHED: usize = 10 << 20;

/// Calls a service from one lane. [`Callee::lane`](crate::Callee::lane) creates it.
///
/// Each call chooses an endpoint, passes on the current request's id, trace and remaining time, and
/// ends at the current request's deadline. It retries what never started, and idempotent methods,
/// as long as the budget allows. Dropping the call or the response's body cancels the callee's
/// work.
///
/// The URI of a request is a path. If it has an authority, that is ignored.
///
/// It may be sent to another thread, as axum requires, but use it on its own lane: its connections
/// live there. It reads the current request when [`Client::send`] is called, so call it in the
/// handler and not in a task that the handler spawned.
#[derive(Clone, Debug)]
pub struct Client(Arc<Lane>);

impl Client {
    pub(crate) fn new(
        shared: Arc<Shared>,
        known: watch::Receiver<Known>,
        tls: Option<TlsState>,
    ) -> Self {
        Client(Arc::new(Lane::new(shared, known, tls)))
    }

    /// Sends a `GET` request and reads the whole response, whatever its status.
    ///
    /// # Errors
    ///
    /// [`ErrorKind`] lists the reasons.
    pub async fn get(&self, path: &str) -> Result<Response<Bytes>, Error> {
        let service = &self.0.shared.name;
        let invalid = |error| Error::new(ErrorKind::Failed, service, None, error);
        let request = Request::get(path).body(Empty::<Bytes>::new()).map_err(invalid)?;
        self.fetch(request).await
    }

    /// Sends a request and reads the whole response, which may have at most 10 MiB.
    ///
    /// # Errors
    ///
    /// [`ErrorKind`] lists the reasons.
    pub fn fetch<B>(
        &self,
        request: Request<B>,
    ) -> impl Future<Output = Result<Response<Bytes>, Error>> + Send + use<B>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (service, sent) = (Arc::clone(&self.0.shared.name), self.send(request));
        async move {
            let (parts, body) = sent.await?.into_parts();
            match Limited::new(body, FETCHED).collect().await {
                Ok(body) => Ok(Response::from_parts(parts, body.to_bytes())),
                Err(error) => Err(match error.downcast::<Error>() {
                    Ok(error) => *error,
                    Err(error) => Error::new(ErrorKind::Body, &service, None, error),
                }),
            }
        }
    }

    /// Sends a request.
    ///
    /// Requests with a body of at most 64 KiB can be retried.
    ///
    /// # Errors
    ///
    /// [`ErrorKind`] lists the reasons.
    pub fn send<B>(
        &self,
        request: Request<B>,
    ) -> impl Future<Output = Result<Response<Body>, Error>> + Send + use<B>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let mut call = Call::new(Arc::clone(&self.0), request);
        async move { call.run().await }
    }
}

impl<B> tower::Service<Request<B>> for Client
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Error>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(self.send(request))
    }
}
