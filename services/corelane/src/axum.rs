//! Layers for axum.

use std::task::{Context, Poll};

use ::axum::extract::{ConnectInfo, MatchedPath};
use http::Request;
use tower::{Layer, Service};

use crate::request::current::{connection, set_route};

/// A layer for axum's extractors: `ConnectInfo<SocketAddr>` returns
/// [`ConnectionInfo::peer`](crate::ConnectionInfo::peer), and `ConnectInfo<ConnectionInfo>` returns
/// everything known about the connection. For a client on a Unix socket, only the second extractor
/// works.
///
/// ```
/// use std::net::SocketAddr;
///
/// use axum::{Router, extract::ConnectInfo, routing::get};
/// use corelane::axum::ConnectInfoLayer;
///
/// async fn hello(ConnectInfo(client): ConnectInfo<SocketAddr>) -> String {
///     format!("hello, {client}\n")
/// }
///
/// let app: Router = Router::new().route("/", get(hello)).layer(ConnectInfoLayer);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectInfoLayer;

impl<S> Layer<S> for ConnectInfoLayer {
    type Service = AddConnectInfo<S>;

    fn layer(&self, inner: S) -> Self::Service {
        AddConnectInfo { inner }
    }
}

/// The service created by [`ConnectInfoLayer`].
#[derive(Clone, Copy, Debug)]
pub struct AddConnectInfo<S> {
    inner: S,
}

impl<S, B> Service<Request<B>> for AddConnectInfo<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        if let Some(connection) = connection() {
            let extensions = request.extensions_mut();
            if let Some(peer) = connection.peer {
                extensions.insert(ConnectInfo(peer));
            }
            extensions.insert(ConnectInfo(connection));
        }
        self.inner.call(request)
    }
}

/// A layer that passes each request's route template to [`set_route`], so that you need not repeat
/// a `Router`'s templates in [`Builder::routes`](crate::Builder::routes). Add it after the routes.
///
/// Requests that match no route are recorded as `other`. The same applies to requests to nested
/// services other than a `Router`, such as a file directory, so list their templates in the
/// settings.
///
/// ```
/// use axum::Router;
/// use axum::routing::get;
/// use corelane::axum::LearnRoutes;
///
/// let router: Router = Router::new()
///     .route("/greet/{name}", get(async || "hello"))
///     .layer(LearnRoutes);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LearnRoutes;

impl<S> Layer<S> for LearnRoutes {
    type Service = RouteLearner<S>;

    fn layer(&self, inner: S) -> RouteLearner<S> {
        RouteLearner { inner }
    }
}

/// A service that names requests after their routes, created by [`LearnRoutes`].
#[derive(Clone, Copy, Debug)]
pub struct RouteLearner<S> {
    inner: S,
}

impl<S, B> Service<Request<B>> for RouteLearner<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        if let Some(matched) = request.extensions().get::<MatchedPath>() {
            set_route(matched.as_str());
        }
        self.inner.call(request)
    }
}
