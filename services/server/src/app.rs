//! The service: one instance per lane, which finds the handler of each request.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use corelane::{Incoming, Lane, Problem};
use futures_util::future::Either;
use http::header::{ALLOW, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use tower::Service;
use tower_http::services::fs::ServeFileSystemResponseBody;

use crate::config::Config;
use crate::handlers::files::Files;
use crate::handlers::root::Root;
use crate::handlers::{div, hello, work};

/// Route templates, as metrics name them.
pub(crate) const ROUTES: [&str; 6] =
    ["/", "/hello", "/div/{n}", "/work", "/static/", "/static/{*path}"];

/// A reply that is in memory, or a file on its way.
pub(crate) type Body = http_body_util::Either<Full<Bytes>, ServeFileSystemResponseBody>;

type Reply = Result<Response<Body>, Infallible>;
type Later = Pin<Box<dyn Future<Output = Reply>>>;

/// The service of one lane.
#[derive(Clone)]
pub(crate) struct App(Rc<Instance>);

struct Instance {
    root: Root,
    files: Option<Files>,
    max_ops: u64,
}

impl App {
    /// Makes the service of each lane of this replica.
    pub(crate) fn factory(config: Config, replica: String) -> impl Fn(&Lane) -> App + Send + Sync {
        move |lane| {
            App(Rc::new(Instance {
                root: Root::new(&replica, lane),
                files: config.static_root.as_deref().map(Files::new),
                max_ops: config.work_max_ops,
            }))
        }
    }
}

impl Service<Request<Incoming>> for App {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<Ready<Reply>, Later>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let app = Rc::clone(&self.0);
        if let Some(path) = request.uri().path().strip_prefix("/static/")
            && let Some(files) = &app.files
            && is_read(request.method())
        {
            let file = files.get(path, &request);
            return Either::Right(Box::pin(async move { Ok(file.await) }));
        }
        let reply = app.answer(&request).map(http_body_util::Either::Left);
        Either::Left(ready(Ok(reply)))
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

impl Instance {
    /// Answers what needs no waiting.
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let uri = request.uri();
        let path = uri.path();
        let known = match path {
            // `*` is the server as a whole, which only OPTIONS asks (RFC 9110 section 9.3.7).
            "/" | "/hello" | "/work" | "*" => true,
            _ => {
                path.starts_with("/div/") || (self.files.is_some() && path.starts_with("/static/"))
            }
        };
        if !known {
            return Problem::from(StatusCode::NOT_FOUND).into_response();
        }
        if !is_read(request.method()) {
            return not_a_read(request.method());
        }
        match path {
            "/" => self.root.reply(),
            "/hello" => hello::reply(),
            "/work" => work::reply(uri.query().unwrap_or(""), self.max_ops),
            _ => div::reply(path.strip_prefix("/div/").unwrap_or("")),
        }
    }
}

/// Every resource here is for reading: `OPTIONS` says so, any other method is refused.
fn not_a_read(method: &Method) -> Response<Full<Bytes>> {
    let allow = HeaderValue::from_static("GET, HEAD, OPTIONS");
    if method != Method::OPTIONS {
        return Problem::from(StatusCode::METHOD_NOT_ALLOWED).header(ALLOW, allow).into_response();
    }
    let mut reply = Response::new(Full::default());
    *reply.status_mut() = StatusCode::NO_CONTENT;
    reply.headers_mut().insert(ALLOW, allow);
    reply
}
