//! `GET /static/...`: files below a root.

use std::pin::Pin;

use bytes::Bytes;
use corelane::Problem;
use corelane_files::{Answer, Settings};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use serde_json::{Value, json};

use crate::config::Config;
use crate::openapi::{self, Operation, Parameter};

pub(crate) type Body = Either<Full<Bytes>, corelane_files::Body>;

/// One lane's files below a root. Files not in memory are read on blocking threads of the lane's
/// event loop. These threads are not pinned, so a slow disk blocks neither the event loop nor its
/// CPU.
#[derive(Debug)]
pub(crate) struct Files(corelane_files::Files);

pub(crate) type Reply = Result<Response<Body>, Pin<Box<dyn Future<Output = Response<Body>>>>>;

impl Files {
    /// Opens the configured files, if any.
    ///
    /// # Errors
    ///
    /// The folder existed when the configuration was read, but cannot be opened.
    pub(crate) fn new(config: &Config) -> Result<Option<Files>, String> {
        let Some(root) = config.static_root.clone() else { return Ok(None) };
        let settings = Settings {
            root,
            cache_bytes: config.static_cache,
            cache_file_bytes: config.static_cache_file,
            cache_control: config.static_cache_control.clone(),
        };
        let named =
            |error| format!("static.root: cannot open {}: {error}", settings.root.display());
        corelane_files::Files::new(&settings).map(|files| Some(Files(files))).map_err(named)
    }

    /// Responds to a GET or HEAD. `target` is relative to the root, still encoded, with its query.
    /// Takes the request's headers, because the response reuses their map.
    pub(crate) fn get<B>(&self, target: &str, request: &Request<B>, fields: HeaderMap) -> Reply {
        match self.0.get(target, request.method(), fields) {
            Answer::Ready(reply) => Ok(worded(reply)),
            Answer::Later(reply) => Err(Box::pin(async move { worded(reply.await) })),
        }
    }
}

/// Redirects a GET or HEAD for the root without its slash.
pub(crate) fn to_root(query: Option<&str>) -> Response<Full<Bytes>> {
    corelane_files::to_folder("static", query).map(|_| Full::default())
}

/// Adds a problem body to an error and keeps its headers, because a 416 has the file's length in
/// Content-Range (RFC 9110 section 15.5.17).
fn worded(reply: Response<corelane_files::Body>) -> Response<Body> {
    let status = reply.status();
    if !status.is_client_error() && !status.is_server_error() {
        return reply.map(Either::Right);
    }
    let problem = match status {
        StatusCode::SERVICE_UNAVAILABLE => {
            Problem::new(status, "overloaded").detail("too many files are being looked up on disk")
        }
        _ => Problem::from(status),
    };
    let fields = reply.headers().iter();
    let problem =
        fields.fold(problem, |problem, (name, value)| problem.header(name.clone(), value.clone()));
    problem.into_response().map(Either::Left)
}

pub(crate) fn describe() -> [openapi::Path; 2] {
    let bytes = || Some(("*/*", json!({})));
    let file = |id: &str, summary: &str| {
        Operation::new(id, summary)
            .tag("Files")
            .reply(200, openapi::reply("The file", bytes()))
            .reply(206, openapi::reply("The requested ranges", bytes()))
            .reply(304, openapi::reply("The client's copy is current", None))
            .reply(308, openapi::reply("A folder: its address ends in a slash", None))
            .errors(&[404, 412, 416])
    };
    let path = Parameter::required(
        "path",
        "path",
        "Its name. In a folder it is named with slashes, which a parameter of a path cannot have",
        json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]+$" }),
    );
    let path = path.example("index.html");
    let index = file("index", "The index of the root");
    let file = file("file", "A file below the root")
        .description("Range and conditional requests are answered (RFC 9110 sections 13 and 14)")
        .parameters([path]);
    [
        ("/static/", json!({ "get": Value::from(index) })),
        ("/static/{path}", json!({ "get": Value::from(file) })),
    ]
}
