//! axum: on tokio's current_thread runtime with one thread, on its multi-thread one with more.

use std::io;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::header::{AUTHORIZATION, IF_MATCH};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{AppendHeaders, IntoResponse};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use clap::Parser;
use frameworks::{Command, Projects, Reply};
use peers::{HELLO, Work, half};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tower_http::services::ServeDir;

async fn hello() -> &'static str {
    HELLO
}

async fn div(Path(n): Path<String>) -> Result<String, StatusCode> {
    half(&n).ok_or(StatusCode::BAD_REQUEST)
}

async fn work(Query(work): Query<Work>) -> String {
    work.reply()
}

async fn create(
    State(projects): State<Projects>,
    fields: HeaderMap,
    document: Bytes,
) -> impl IntoResponse {
    reply(projects.create(value(&fields, AUTHORIZATION), &document).await)
}

async fn load(State(projects): State<Projects>, Path(id): Path<String>) -> impl IntoResponse {
    reply(projects.load(&id).await)
}

async fn save(
    State(projects): State<Projects>,
    Path(id): Path<String>,
    fields: HeaderMap,
    document: Bytes,
) -> impl IntoResponse {
    let (authorization, if_match) = (value(&fields, AUTHORIZATION), value(&fields, IF_MATCH));
    reply(projects.save(&id, authorization, if_match, &document).await)
}

fn value(fields: &HeaderMap, name: HeaderName) -> Option<&[u8]> {
    fields.get(name).map(|value| value.as_bytes())
}

fn reply(reply: Reply) -> impl IntoResponse {
    let status = StatusCode::from_u16(reply.status).unwrap_or_default();
    (status, AppendHeaders(reply.fields), reply.body)
}

fn main() -> io::Result<()> {
    let command = Command::parse();
    let threads = command.options.threads;
    let mut builder = match threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(threads).enable_all().build()?.block_on(serve(command))
}

async fn serve(command: Command) -> io::Result<()> {
    let mut routes = Router::new()
        .route("/hello", get(hello))
        .route("/div/{n}", get(div))
        .route("/work", get(work));
    if let Some(folder) = &command.folder {
        routes = routes.nest_service("/static", ServeDir::new(folder));
    }
    if let Some(projects) = command.projects(1).map_err(io::Error::other)? {
        projects.prepare().await?;
        let of_projects = Router::new()
            .route("/projects", post(create))
            .route("/projects/{id}", get(load).put(save));
        routes = routes.merge(of_projects.with_state(projects));
    }
    let listener = TcpListener::from_std(command.options.listener()?)?;
    // A file is written after its head: without this the one may wait for the other's
    // acknowledgement (tcp(7)).
    let listener = listener.tap_io(|socket| {
        let _ = socket.set_nodelay(true);
    });
    // A router by itself would be made anew for each connection.
    axum::serve(listener, routes.into_make_service()).await
}
