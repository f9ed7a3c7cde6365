//! The OpenAPI document (3.1) and its HTML page, generated from the routes.
//!
//! Each handler describes its own path next to its code, in the terms of `openapi`.

mod page;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue,
    IF_NONE_MATCH,
};
use http::{Response, StatusCode};
use http_body_util::Full;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::files;
use crate::handlers::{div, hello, root, work};
use crate::openapi::{self, Operation, Parameter, Path, reply};
use crate::projects;

/// What a server with this configuration answers.
fn document(config: &Config) -> Value {
    let mut paths = vec![root::describe(), hello::describe(), div::describe()];
    paths.push(work::describe(config.work_max_ops));
    if config.static_root.is_some() {
        paths.extend(files::describe());
    }
    if config.serves_projects() {
        paths.extend(projects::describe());
    }
    paths.extend(describe());
    let paths: Map<_, _> = paths.into_iter().map(|(path, item)| (path.to_owned(), item)).collect();
    let mut components = openapi::components();
    if config.serves_projects()
        && let Some(schemas) = components["schemas"].as_object_mut()
    {
        schemas.extend(projects::schemas());
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Corelane reference service",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": "What answers GET answers HEAD, too, without a body; OPTIONS lists the \
                methods of a path in Allow. Every error is a problem document (RFC 9457).",
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": components,
    })
}

/// The document and its page, for all lanes. Not generated at the start, because few clients
/// request them and a start should be short.
#[derive(Clone, Debug)]
pub(crate) struct Documents {
    config: Arc<Config>,
    made: Arc<OnceLock<Made>>,
}

#[derive(Debug)]
struct Made {
    json: Document,
    page: Document,
}

#[derive(Debug)]
struct Document {
    text: Bytes,
    tag: HeaderValue,
    media_type: HeaderValue,
}

impl Documents {
    pub(crate) fn new(config: Arc<Config>) -> Self {
        Documents { config, made: Arc::default() }
    }

    fn made(&self) -> &Made {
        self.made.get_or_init(|| {
            let document = document(&self.config);
            Made {
                page: Document::new(page::render(&document), "text/html; charset=utf-8"),
                json: Document::new(format!("{document:#}\n"), "application/json"),
            }
        })
    }

    /// The reply to `GET /openapi.json`.
    pub(crate) fn json(&self, asked: &HeaderMap) -> Response<Full<Bytes>> {
        self.made().json.reply(asked)
    }

    /// The reply to `GET /docs`.
    pub(crate) fn page(&self, asked: &HeaderMap) -> Response<Full<Bytes>> {
        let mut reply = self.made().page.reply(asked);
        let policy = HeaderValue::from_static(page::POLICY);
        reply.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
        reply
    }
}

impl Document {
    fn new(text: String, media_type: &'static str) -> Self {
        let hash = digest(&SHA256, text.as_bytes());
        let start = hash.as_ref().iter().take(8).fold(0, |tag, byte| tag << 8 | u64::from(*byte));
        // Digits and quotes are a valid header value.
        let tag = HeaderValue::try_from(format!("\"{start:016x}\""));
        Document {
            tag: tag.unwrap_or_else(|_| HeaderValue::from_static("\"\"")),
            media_type: HeaderValue::from_static(media_type),
            text: text.into(),
        }
    }

    fn reply(&self, asked: &HeaderMap) -> Response<Full<Bytes>> {
        let fresh = self.is_known(asked);
        let mut reply =
            Response::new(Full::new(if fresh { Bytes::new() } else { self.text.clone() }));
        if fresh {
            *reply.status_mut() = StatusCode::NOT_MODIFIED;
        } else {
            reply.headers_mut().insert(CONTENT_TYPE, self.media_type.clone());
        }
        reply.headers_mut().insert(ETAG, self.tag.clone());
        // Another replica may have another configuration, and the next version another document.
        reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        reply
    }

    /// Whether the client has this text: If-None-Match compares weakly (RFC 9110 section 13.1.2).
    fn is_known(&self, asked: &HeaderMap) -> bool {
        let fields = asked.get_all(IF_NONE_MATCH).iter();
        let mut tags = fields.flat_map(|field| field.as_bytes().split(|&b| b == b','));
        tags.any(|tag| {
            let tag = tag.trim_ascii();
            tag == b"*" || tag.strip_prefix(b"W/").unwrap_or(tag) == self.tag.as_bytes()
        })
    }
}

pub(super) fn describe() -> [Path; 2] {
    let operation = |id: &str, summary: &str, media_type: &str, schema: Value| {
        let known = Parameter::optional(
            "header",
            "If-None-Match",
            "ETag of a copy that the client has",
            json!({ "type": "string" }),
        );
        let operation = Operation::new(id, summary)
            .parameters([known])
            .reply(200, reply("The document", Some((media_type, schema))))
            .reply(304, reply("The client's copy is the present one", None));
        json!({ "get": Value::from(operation) })
    };
    let object = json!({ "type": "object", "required": ["openapi", "info", "paths"] });
    let text = json!({ "type": "string" });
    [
        ("/openapi.json", operation("document", "This document", "application/json", object)),
        ("/docs", operation("page", "This document as a page", "text/html; charset=utf-8", text)),
    ]
}
