//! The service that a lane calls.

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower::Service;

use crate::base::error::BoxError;
use crate::request::body::Incoming;

/// The requirements of [`Server::serve`](crate::Server::serve) on a service, under one name.
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
