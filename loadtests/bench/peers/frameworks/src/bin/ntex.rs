//! ntex on its tokio runtime: an event loop for each worker, and a thread that accepts.

use std::io;

use clap::Parser;
use frameworks::{Command, Projects, Reply, TEXT};
use ntex::SharedCfg;
use ntex::http::header::{AUTHORIZATION, HeaderName, IF_MATCH};
use ntex::http::{HttpServiceConfig, Method, StatusCode};
use ntex::time::Seconds;
use ntex::util::Bytes;
use ntex::web::guard::fn_guard;
use ntex::web::types::{Path, Query, State};
use ntex::web::{self, App, HttpRequest, HttpResponse, HttpServer, ServiceConfig};
use ntex_files::Files;
use peers::{BACKLOG, HELLO, IDLE, Work, half};

async fn hello() -> HttpResponse {
    HttpResponse::Ok().content_type(TEXT).body(HELLO)
}

async fn div(n: Path<String>) -> HttpResponse {
    match half(&n) {
        Some(half) => HttpResponse::Ok().content_type(TEXT).body(half),
        None => HttpResponse::BadRequest().finish(),
    }
}

async fn work(query: Query<Work>) -> HttpResponse {
    HttpResponse::Ok().content_type(TEXT).body(query.reply())
}

async fn create(projects: State<Projects>, request: HttpRequest, document: Bytes) -> HttpResponse {
    reply(projects.create(value(&request, AUTHORIZATION), &document).await)
}

async fn load(projects: State<Projects>, id: Path<String>) -> HttpResponse {
    reply(projects.load(&id).await)
}

async fn save(
    projects: State<Projects>,
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
    for (name, value) in reply.fields {
        builder.set_header(name, value);
    }
    builder.body(reply.body)
}

#[ntex::main]
async fn main() -> io::Result<()> {
    let command = Command::parse();
    let options = command.options;
    if let Some(projects) = command.projects(1).map_err(io::Error::other)? {
        projects.prepare().await?;
    }
    let http = HttpServiceConfig::new().set_keepalive(Seconds(IDLE.as_secs() as u16));
    // Called once for each worker.
    HttpServer::new(async move || App::new().configure(|config| routes(config, &command)))
        .workers(options.threads)
        .backlog(BACKLOG.into())
        .config(SharedCfg::new("peer").add(http))
        .bind(options.listen)?
        .run()
        .await
}

fn routes(config: &mut ServiceConfig, command: &Command) {
    config
        .route("/hello", web::get().to(hello))
        .route("/div/{n}", web::get().to(div))
        .route("/work", web::get().to(work));
    if let Some(folder) = &command.folder {
        // ntex-files 3.2.0 looks for `..` before it decodes: without this, /static/%2e%2e/ leaves the folder.
        let plain = fn_guard(|head| head.method == Method::GET && !head.uri.path().contains('%'));
        config.service(Files::new("/static", folder).index_file("index.html").use_guards(plain));
    }
    if let Ok(Some(projects)) = command.projects(command.options.threads) {
        config
            .state(projects)
            .route("/projects", web::post().to(create))
            .route("/projects/{id}", web::get().to(load))
            .route("/projects/{id}", web::put().to(save));
    }
}
