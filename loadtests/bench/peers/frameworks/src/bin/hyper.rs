//! Plain hyper on tokio's current_thread runtime, one of each for a thread, with a listening socket
//! of its own.

use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::rc::Rc;
use std::thread;

use clap::Parser;
use frameworks::{Command, Projects, Reply, TEXT};
use futures_util::FutureExt;
use futures_util::future::Either as FutureEither;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, IF_MATCH};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use peers::{HELLO, Work, half};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};
use tower::Service as _;
use tower_http::services::ServeDir;
use tower_http::services::fs::ServeFileSystemResponseBody;

type Answer = Response<Either<Full<Bytes>, ServeFileSystemResponseBody>>;

/// What one event loop serves.
struct Service {
    files: Option<ServeDir>,
    projects: Option<Projects>,
}

impl Service {
    /// What needs no waiting is answered at once: a future that may also wait for a disk or a
    /// database is large, and hyper moves it for each request.
    fn answer(self: &Rc<Self>, request: Request<Incoming>) -> impl Future<Output = Answer> + use<> {
        match at_once(request.uri()) {
            Some(answer) => FutureEither::Left(ready(answer)),
            None => FutureEither::Right(Box::pin(Rc::clone(self).answer_later(request))),
        }
    }

    async fn answer_later(self: Rc<Self>, request: Request<Incoming>) -> Answer {
        let path = request.uri().path();
        if let (Some(files), Some(file)) = (&self.files, path.strip_prefix("/static")) {
            return file_of(files, file).await;
        }
        match &self.projects {
            Some(projects) if path.starts_with("/projects") => {
                let (head, body) = request.into_parts();
                project_of(projects, &head, body).await
            }
            _ => empty(StatusCode::NOT_FOUND),
        }
    }
}

fn at_once(target: &Uri) -> Option<Answer> {
    let answer = match target.path() {
        "/hello" => Some(text(HELLO)),
        "/work" => target.query().and_then(Work::parse).map(|work| text(work.reply())),
        path => half(path.strip_prefix("/div/")?).map(text),
    };
    Some(answer.unwrap_or_else(|| empty(StatusCode::BAD_REQUEST)))
}

async fn file_of(files: &ServeDir, path: &str) -> Answer {
    let Ok(uri) = path.parse::<Uri>() else { return empty(StatusCode::NOT_FOUND) };
    let mut request = Request::new(());
    *request.uri_mut() = uri;
    let Ok(reply) = files.clone().call(request).await;
    reply.map(Either::Right)
}

async fn project_of(projects: &Projects, head: &Parts, body: Incoming) -> Answer {
    let Ok(body) = body.collect().await else { return empty(StatusCode::BAD_REQUEST) };
    let document = body.to_bytes();
    let value = |name: HeaderName| head.headers.get(name).map(|value| value.as_bytes());
    let id = head.uri.path().strip_prefix("/projects/");
    let reply = match (&head.method, id) {
        (&Method::POST, None) => projects.create(value(AUTHORIZATION), &document).await,
        (&Method::GET, Some(id)) => projects.load(id).await,
        (&Method::PUT, Some(id)) => {
            projects.save(id, value(AUTHORIZATION), value(IF_MATCH), &document).await
        }
        _ => return empty(StatusCode::METHOD_NOT_ALLOWED),
    };
    replied(reply)
}

fn replied(reply: Reply) -> Answer {
    let mut answer = Response::new(Either::Left(Full::from(reply.body)));
    *answer.status_mut() = StatusCode::from_u16(reply.status).unwrap_or_default();
    for (name, value) in reply.fields {
        if let Ok(value) = HeaderValue::try_from(value) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

fn text(body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(body.into())));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TEXT));
    answer
}

fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Either::Left(Full::default()));
    *answer.status_mut() = status;
    answer
}

fn main() -> io::Result<()> {
    let command = Command::parse();
    if let Some(projects) = command.projects(1).map_err(io::Error::other)? {
        event_loop(projects.prepare())?;
    }
    if command.options.threads == 1 {
        return event_loop(accept(&command));
    }
    let threads = (0..command.options.threads).map(|_| {
        let command = command.clone();
        thread::spawn(move || event_loop(accept(&command)))
    });
    let ends: Vec<_> = threads.collect();
    ends.into_iter().try_for_each(|end| end.join().expect("a thread that does not panic"))
}

fn event_loop(end: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, end)
}

async fn accept(command: &Command) -> io::Result<()> {
    let threads = command.options.threads;
    let projects = command.projects(threads).map_err(io::Error::other)?;
    let files = command.folder.as_ref().map(ServeDir::new);
    let service = Rc::new(Service { files, projects });
    let listener = TcpListener::from_std(match threads {
        1 => command.options.listener()?,
        _ => command.options.listener_of_many()?,
    })?;
    loop {
        let (socket, _) = listener.accept().await?;
        // A file is written after its head: without this the one may wait for the other's
        // acknowledgement (tcp(7)).
        let _ = socket.set_nodelay(true);
        let service = Rc::clone(&service);
        // A connection that ends with an error is the client's affair.
        spawn_local(async move {
            let answer = service_fn(|request| service.answer(request).map(Ok::<_, Infallible>));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), answer).await;
        });
    }
}
