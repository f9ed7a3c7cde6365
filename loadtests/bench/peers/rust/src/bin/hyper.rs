//! Plain hyper on tokio's current_thread runtime, with a runtime and a listening socket per thread.

use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::thread;

use clap::Parser;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use peers::frameworks::{Command, TEXT};
use peers::{HELLO, Options, Work, half};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};

type Answer = Response<Full<Bytes>>;

fn answer(request: &Request<Incoming>) -> Answer {
    let target = request.uri();
    let found = match target.path() {
        "/hello" => Some(text(HELLO)),
        path if path == "/work" || path.starts_with("/work/") => {
            target.query().and_then(Work::parse).map(|work| text(work.reply()))
        }
        path => match path.strip_prefix("/div/") {
            Some(n) => half(n).map(text),
            None => return empty(StatusCode::NOT_FOUND),
        },
    };
    found.unwrap_or_else(|| empty(StatusCode::BAD_REQUEST))
}

fn text(body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TEXT));
    answer
}

fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer
}

fn main() -> io::Result<()> {
    let options = Command::parse().options;
    if options.threads == 1 {
        return event_loop(options);
    }
    let threads = (0..options.threads).map(|_| thread::spawn(move || event_loop(options)));
    let ends: Vec<_> = threads.collect();
    ends.into_iter().try_for_each(|end| end.join().expect("a thread that does not panic"))
}

fn event_loop(options: Options) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, accept(options))
}

async fn accept(options: Options) -> io::Result<()> {
    let listener = TcpListener::from_std(match options.threads {
        1 => options.listener()?,
        _ => options.listener_of_many()?,
    })?;
    loop {
        let (socket, _) = listener.accept().await?;
        // Connection errors are caused by the client and are ignored.
        spawn_local(async move {
            let answer = service_fn(|request| ready(Ok::<_, Infallible>(answer(&request))));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), answer).await;
        });
    }
}
