//! Plain hyper on tokio's current_thread runtime, with a runtime and a listening socket per thread.

use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::rc::Rc;
use std::thread;

use clap::Parser;
use frameworks::{Command, TEXT};
use futures_util::FutureExt;
use futures_util::future::Either as FutureEither;
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use peers::{HELLO, Work, half};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};
use tower::Service as _;
use tower_http::services::ServeDir;
use tower_http::services::fs::ServeFileSystemResponseBody;

type Answer = Response<Either<Full<Bytes>, ServeFileSystemResponseBody>>;

/// Replies that need no waiting are ready at once. A future that may also wait for the disk is large,
/// and hyper moves it for each request.
fn answer(
    files: &Option<ServeDir>,
    request: Request<Incoming>,
) -> impl Future<Output = Answer> + use<> {
    match at_once(request.uri()) {
        Some(answer) => FutureEither::Left(ready(answer)),
        None => FutureEither::Right(Box::pin(answer_later(files.clone(), request))),
    }
}

async fn answer_later(files: Option<ServeDir>, request: Request<Incoming>) -> Answer {
    match (files, request.uri().path().strip_prefix("/static")) {
        (Some(files), Some(path)) => file_of(files, path).await,
        _ => empty(StatusCode::NOT_FOUND),
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

async fn file_of(mut files: ServeDir, path: &str) -> Answer {
    let Ok(uri) = path.parse::<Uri>() else { return empty(StatusCode::NOT_FOUND) };
    let mut request = Request::new(());
    *request.uri_mut() = uri;
    let Ok(reply) = files.call(request).await;
    reply.map(Either::Right)
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
    let files = Rc::new(command.folder.as_ref().map(ServeDir::new));
    let listener = TcpListener::from_std(match threads {
        1 => command.options.listener()?,
        _ => command.options.listener_of_many()?,
    })?;
    loop {
        let (socket, _) = listener.accept().await?;
        // A file is written after its head. Without this, it may wait for the acknowledgement of
        // the head (tcp(7)).
        let _ = socket.set_nodelay(true);
        let files = Rc::clone(&files);
        // Errors of a connection are caused by the client and ignored.
        spawn_local(async move {
            let answer = service_fn(|request| answer(&files, request).map(Ok::<_, Infallible>));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), answer).await;
        });
    }
}
