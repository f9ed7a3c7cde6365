//! One service instance per lane routes requests to its handlers.

use std::error::Error;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use corelane::{Incoming, Lane, Problem};
use corelane_service::auth::{Auth, Guard};
use corelane_service::faults::{Faults, Injection, Injector};
use corelane_service::openapi::Documents;
use futures_util::future::Either;
use http::header::{ALLOW, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use tokio::task::spawn_local;
use tokio::time::sleep;
use tower::Service;

use crate::config::Config;
use crate::docs;
use crate::files::{self, Body, Files};
use crate::handlers::root::Root;
use crate::handlers::{div, hello, work};
use crate::projects::database::Database;
use crate::projects::{self, Projects, Resource};

const ROUTES: [&str; 12] = [
    "/",
    "/hello",
    "/div/{n}",
    "/work",
    "/work/{name}",
    "/static/",
    "/static/{*path}",
    "/projects",
    "/projects/{id}",
    "/openapi.json",
    "/docs",
    "/docs/{file}",
];

pub(crate) fn service() -> corelane_service::App<Config> {
    let about = "The reference service of Corelane: HTTP on lanes, one per CPU";
    corelane_service::App::new("corelane-server", env!("CARGO_PKG_VERSION"), about)
        .routes(ROUTES)
        .check(Database::check)
}

/// The library responds to its own errors, such as a truncated body.
type Reply = Result<Response<Body>, Box<dyn Error + Send + Sync>>;
type Later = Pin<Box<dyn Future<Output = Reply>>>;

#[derive(Clone)]
pub(crate) struct App(Rc<Instance>);

struct Instance {
    root: Root,
    files: Option<Files>,
    projects: Option<Rc<Projects>>,
    max_ops: u64,
    documents: Documents,
    guard: Guard,
    faults: Injector,
}

#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) auth: Arc<Auth>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) database: Option<Arc<Database>>,
}

impl App {
    pub(crate) fn factory(
        config: Config,
        replica: String,
        common: Common,
    ) -> impl Fn(Lane) -> Ready<Result<App, String>> + Send + Sync {
        let config = Arc::new(config);
        let described = Arc::clone(&config);
        let documents = Documents::new(move || docs::document(&described));
        move |lane| {
            let files = match Files::new(&config) {
                Ok(files) => files,
                Err(error) => return ready(Err(error)),
            };
            spawn_local(give_back());
            ready(Ok(App(Rc::new(Instance {
                root: Root::new(&replica, &lane),
                projects: common.database.as_ref().map(|of| Rc::new(Projects::new(of.lane(&lane)))),
                files,
                max_ops: config.work_max_ops,
                documents: documents.clone(),
                guard: common.auth.lane(),
                faults: common.faults.lane(lane.index()),
            }))))
        }
    }
}

impl Service<Request<Incoming>> for App {
    type Response = Response<Body>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Either<Ready<Reply>, Later>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let app = &self.0;
        if let Some(refusal) = app.refuse(&request) {
            return at_once(refusal);
        }
        if let Some(injection) = app.faults.choose(request.uri().path(), request.method()) {
            return Either::Right(Box::pin(Rc::clone(app).falsify(injection, request)));
        }
        app.dispatch(request)
    }
}

fn at_once(reply: Response<Full<Bytes>>) -> Either<Ready<Reply>, Later> {
    Either::Left(ready(Ok(reply.map(http_body_util::Either::Left))))
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

impl Instance {
    /// Answers project requests without a handler: wrong method or missing token.
    fn refuse(&self, request: &Request<Incoming>) -> Option<Response<Full<Bytes>>> {
        self.projects.as_ref()?;
        let resource = Resource::of(request.uri().path())?;
        resource.answer_at_once(request.method()).or_else(|| {
            if !projects::is_write(request.method()) {
                return None;
            }
            match self.guard.check(request.headers()) {
                Ok(caller) => {
                    tracing::debug!(target: "corelane::auth", token = %caller.name(), "a write is allowed");
                    None
                }
                Err(refusal) => Some(refusal.into_response()),
            }
        })
    }

    async fn falsify(self: Rc<Self>, injection: Injection, request: Request<Incoming>) -> Reply {
        let mut reply = match injection.inject().await {
            Some(reply) => reply.map(http_body_util::Either::Left),
            None => self.dispatch(request).await?,
        };
        injection.sign(reply.headers_mut());
        Ok(reply)
    }

    fn dispatch(&self, mut request: Request<Incoming>) -> Either<Ready<Reply>, Later> {
        if request.uri().path().starts_with("/static/")
            && let Some(files) = &self.files
            && is_read(request.method())
        {
            let fields = std::mem::take(request.headers_mut());
            let target = request.uri().path_and_query().map_or("", |target| target.as_str());
            let target = target.strip_prefix("/static/").unwrap_or_default();
            return match files.get(target, &request, fields) {
                Ok(reply) => Either::Left(ready(Ok(reply))),
                Err(later) => Either::Right(Box::pin(async move { Ok(later.await) })),
            };
        }
        if let Some(projects) = &self.projects
            && Resource::of(request.uri().path()).is_some()
        {
            let projects = Rc::clone(projects);
            return Either::Right(Box::pin(async move {
                Ok(projects.answer(request).await?.map(http_body_util::Either::Left))
            }));
        }
        at_once(self.answer(request.into_parts().0))
    }

    fn answer(&self, head: Parts) -> Response<Full<Bytes>> {
        let Parts { method, uri, headers: fields, .. } = head;
        let path = uri.path();
        let known = match path {
            // `*` addresses the whole server and allows only OPTIONS (RFC 9110 section 9.3.7).
            "/" | "/hello" | "/work" | "/openapi.json" | "/docs" | "*" => true,
            "/static" => self.files.is_some(),
            _ => {
                let named = |prefix| path.strip_prefix(prefix).filter(|name| !name.contains('/'));
                named("/div/").is_some()
                    || named("/docs/").is_some_and(|name| !name.is_empty())
                    || named("/work/").is_some_and(|name| !name.is_empty())
                    || (self.files.is_some() && path.starts_with("/static/"))
            }
        };
        if !known {
            return Problem::from(StatusCode::NOT_FOUND).into_response();
        }
        if !is_read(&method) {
            return not_a_read(&method);
        }
        match path {
            "/" => self.root.reply(fields),
            "/hello" => hello::reply(fields),
            "/static" => files::to_root(uri.query()),
            "/openapi.json" => self.documents.json(&fields),
            "/docs" => self.documents.page(&fields),
            "/work" => work::reply(fields, uri.query().unwrap_or(""), self.max_ops),
            _ => {
                if let Some(n) = path.strip_prefix("/div/") {
                    div::reply(fields, n)
                } else if let Some(name) = path.strip_prefix("/docs/") {
                    let file = self.documents.file(name, &fields);
                    file.unwrap_or_else(|| Problem::from(StatusCode::NOT_FOUND).into_response())
                } else {
                    work::reply(fields, uri.query().unwrap_or(""), self.max_ops)
                }
            }
        }
    }
}

/// Answers `OPTIONS` and rejects other methods, because all resources here are read-only.
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

/// Interval between triggers. It is longer than the time for which mimalloc keeps freed pages for
/// reuse.
const PAUSE: Duration = Duration::from_secs(2);

/// Size of a block that is large enough to be returned to the system when it is freed. Smaller
/// blocks are kept for reuse.
const LARGE: usize = 1 << 20;

/// Returns the memory of closed and parked connections to the system. Costs half a microsecond.
///
/// mimalloc returns a freed page after at least a second, and only with a trigger on that thread:
/// another freed page, or 10,000 allocations on its slow path. A lane whose connections have just
/// been parked provides no trigger, so thousands of connections would keep unused memory (mimalloc
/// v3, src/page.c: `_mi_page_free`; src/options.c: `purge_delay`).
async fn give_back() {
    loop {
        sleep(PAUSE).await;
        drop(black_box(Vec::<u8>::with_capacity(LARGE)));
    }
}
