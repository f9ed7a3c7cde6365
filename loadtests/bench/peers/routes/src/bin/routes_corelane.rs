//! Corelane: a tower service that finds its handler by `matchit`, or an axum `Router`, on lanes.

use std::convert::Infallible;
use std::error::Error;
use std::rc::Rc;

use bytes::Bytes;
use clap::{Parser, ValueEnum};
use corelane::{Incoming, Lanes, Pin, Server};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use peers::HELLO;
use routes::{Command, Route};

/// As many templates as the library's metrics and load table take.
const NAMED: usize = 64;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    command: Command,
    /// What finds the handler.
    #[arg(long, value_enum)]
    router: Kind,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Matchit,
    Axum,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Line { command, router } = Line::parse();
    let server = Server::builder()
        .bind(command.options.listen)
        .lanes(Lanes::Count(command.options.threads))
        .pin(Pin::On)
        .routes(Route::all(command.routes).map(Route::template).take(NAMED))
        .build()?;
    // Only a signal ends it orderly; what is cut then is of no interest.
    let _drained = match router {
        Kind::Matchit => server.serve(move |_lane| {
            let routes = Rc::new(matchit(command.routes));
            tower::service_fn(move |request: Request<Incoming>| {
                let reply = answer(&routes, request.uri().path());
                async move { Ok::<_, Infallible>(reply) }
            })
        })?,
        Kind::Axum => server.serve(move |_lane| routes::axum_router(command.routes))?,
    };
    Ok(())
}

fn matchit(count: u32) -> matchit::Router<Bytes> {
    let mut router = matchit::Router::new();
    let every = Route::all(count).map(|route| (route.template(), Bytes::from(route.body())));
    for (template, body) in every.chain([("/hello".to_owned(), Bytes::from(HELLO))]) {
        router.insert(template, body).expect("templates that differ");
    }
    router
}

fn answer(routes: &matchit::Router<Bytes>, path: &str) -> Response<Full<Bytes>> {
    let mut response = Response::default();
    match routes.at(path) {
        Ok(found) => *response.body_mut() = Full::from(found.value.clone()),
        Err(_) => *response.status_mut() = StatusCode::NOT_FOUND,
    }
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response
}
