//! actix-web: an event loop for each worker, and a thread that accepts.

use std::io;

use actix_files::Files;
use actix_web::error::ErrorBadRequest;
use actix_web::http::StatusCode;
use actix_web::http::header::{AUTHORIZATION, ContentType, HeaderName, IF_MATCH};
use actix_web::web::{self, Bytes, Data, Path, ServiceConfig};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, rt};
use clap::Parser;
use frameworks::{Command, Projects, Reply};
use peers::{BACKLOG, HELLO, IDLE, Work, half};

/// Files below this size are read on the event loop: a hop to another thread costs more than to copy
/// them from the page cache. actix-files recommends to choose it by what is served.
const READ_AT_ONCE: u64 = 64 << 10;

async fn hello() -> HttpResponse {
    text(HELLO)
}

async fn div(n: Path<String>) -> actix_web::Result<HttpResponse> {
    half(&n).map(text).ok_or_else(|| ErrorBadRequest("no decimal number"))
}

async fn work(query: web::Query<Work>) -> HttpResponse {
    text(query.reply())
}

fn text(body: impl actix_web::body::MessageBody + 'static) -> HttpResponse {
    HttpResponse::Ok().content_type(ContentType::plaintext()).body(body)
}

async fn create(projects: Data<Projects>, request: HttpRequest, document: Bytes) -> HttpResponse {
    reply(projects.create(value(&request, AUTHORIZATION), &document).await)
}

async fn load(projects: Data<Projects>, id: Path<String>) -> HttpResponse {
    reply(projects.load(&id).await)
}

async fn save(
    projects: Data<Projects>,
    id: Path<String>,
    request: HttpRequest,
    document: Bytes,
) -> HttpResponse {
    let (authorization, if_match) = (value(&request, AUTHORIZATION), value(&request, IF_MATCH));
    reply(projects.save(&id, authorization, if_match, &document).await)
}

fn value(request: &HttpRequest, name: HeaderName) -> Option<&[u8]> {
    request.headers().get(name).map(|value| value.as_bytes())
}

fn reply(reply: Reply) -> HttpResponse {
    let mut builder = HttpResponse::build(StatusCode::from_u16(reply.status).unwrap_or_default());
    for field in reply.fields {
        builder.insert_header(field);
    }
    builder.body(reply.body)
}

fn main() -> io::Result<()> {
    let command = Command::parse();
    let options = command.options;
    rt::System::new().block_on(async move {
        if let Some(projects) = command.projects(1).map_err(io::Error::other)? {
            projects.prepare().await?;
        }
        // Called once for each worker.
        let app = move || App::new().configure(|config| routes(config, &command));
        HttpServer::new(app)
            .workers(options.threads)
            .backlog(BACKLOG.into())
            .keep_alive(IDLE)
            .tcp_nodelay(true)
            .bind(options.listen)?
            .run()
            .await
    })
}

fn routes(config: &mut ServiceConfig, command: &Command) {
    config
        .route("/hello", web::get().to(hello))
        .route("/div/{n}", web::get().to(div))
        .route("/work", web::get().to(work));
    if let Some(folder) = &command.folder {
        let files = Files::new("/static", folder).index_file("index.html");
        config.service(files.read_mode_threshold(READ_AT_ONCE));
    }
    if let Ok(Some(projects)) = command.projects(command.options.threads) {
        config
            .app_data(Data::new(projects))
            .route("/projects", web::post().to(create))
            .route("/projects/{id}", web::get().to(load))
            .route("/projects/{id}", web::put().to(save));
    }
}
