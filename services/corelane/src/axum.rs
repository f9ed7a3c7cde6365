//! Layers for axum.

use std::task::{Context, Poll};

use ::axum::extract::{ConnectInfo, MatchedPath};
use http::Request;
use tower::{Layer, Service};

use crate::request::current::{connection, set_route};

/// A layer that makes axum's extractor `ConnectInfo<SocketAddr>` return the address in
/// [`ConnectionInfo::peer`](crate::ConnectionInfo::peer), and `ConnectInfo<ConnectionInfo>` all
/// facts about the connection. For a client of a Unix socket only the second extractor works.
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

/// The service that [`ConnectInfoLayer`] creates.
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

/// A layer that passes the template of each request's route to [`set_route`]. You then need not
/// repeat the templates of a `Router` in [`Builder::routes`](crate::Builder::routes). Add the layer
/// after the routes.
///
/// A request that no route matches counts as `other`. So does a request to a nested service that is
/// not a `Router`, such as a folder of files: list the template of that service.
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

/// A service whose requests are named by their routes. [`LearnRoutes`] creates it.
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
