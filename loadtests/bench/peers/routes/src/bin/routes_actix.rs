//! actix-web: routes of one area in a scope, which its router looks at in turn, and the areas' scopes in turn.

use std::io;

use actix_web::http::header::ContentType;
use actix_web::{App, HttpResponse, HttpServer, Scope, rt, web};
use clap::Parser;
use peers::{BACKLOG, HELLO, IDLE};
use routes::{AREA, Command, Route};

fn text(body: String) -> HttpResponse {
    HttpResponse::Ok().content_type(ContentType::plaintext()).body(body)
}

fn scope(first: u32, count: u32) -> Scope {
    let last = count.min(first + AREA);
    (first..last).map(Route).fold(web::scope(&Route(first).area()), |scope, route| {
        let answer = move || async move { text(route.body()) };
        scope.route(&route.within(), web::get().to(answer))
    })
}

fn main() -> io::Result<()> {
    let Command { options, routes } = Command::parse();
    let app = move || {
        let app = App::new().route("/hello", web::get().to(|| async { text(HELLO.to_owned()) }));
        let areas = (0..routes).step_by(AREA as usize);
        areas.fold(app, |app, first| app.service(scope(first, routes)))
    };
    rt::System::new().block_on(
        HttpServer::new(app)
            .workers(options.threads)
            .backlog(BACKLOG.into())
            .keep_alive(IDLE)
            .bind(options.listen)?
            .run(),
    )
}
