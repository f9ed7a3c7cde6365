//! Plain hyper on tokio's current_thread runtime, as its documentation's first server.

use std::convert::Infallible;
use std::io;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use peers::{HELLO, Options, Work};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};

fn answer(request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let body = match (request.uri().path(), request.uri().query().and_then(Work::parse)) {
        ("/hello", _) => Bytes::from_static(HELLO.as_bytes()),
        ("/work", Some(work)) => work.reply().into(),
        _ => return not_found(),
    };
    let mut reply = Response::new(Full::new(body));
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    reply.headers_mut().insert(CONTENT_TYPE, text);
    reply
}

fn not_found() -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::default());
    *reply.status_mut() = StatusCode::NOT_FOUND;
    reply
}

async fn accept(options: Options) -> io::Result<()> {
    let listener = TcpListener::from_std(options.listener()?)?;
    loop {
        let (socket, _) = listener.accept().await?;
        let service = service_fn(|request| async move { Ok::<_, Infallible>(answer(&request)) });
        // A connection that ends with an error is the client's affair.
        spawn_local(async move {
            let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

fn main() -> io::Result<()> {
    let options = Options::of_one_thread();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, accept(options))
}
