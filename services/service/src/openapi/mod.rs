//! An OpenAPI document (3.1) and its HTML page. Cargo feature `openapi`, plus `openapi-viewer` for
//! Swagger UI.

mod page;
#[cfg(feature = "openapi-viewer")]
mod viewer;

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap,
    HeaderValue, IF_NONE_MATCH,
};
use http::{Response, StatusCode};
use http_body_util::Full;
use ring::digest::{SHA256, digest};
use serde_json::Value;

/// A document and its page, for all lanes. Generated on demand, because few clients request them
/// and startup should be fast.
///
/// ```
/// use corelane_service::openapi::Documents;
/// use http::HeaderMap;
/// use serde_json::json;
///
/// // With utoipa: serde_json::to_value(Api::openapi())
/// let document = || json!({ "openapi": "3.1.0", "info": { "title": "Shop", "version": "1" }, "paths": {} });
/// let documents = Documents::new(document);
/// assert_eq!(documents.page(&HeaderMap::new()).status(), 200);
/// ```
#[derive(Clone)]
pub struct Documents {
    document: Arc<dyn Fn() -> Value + Send + Sync>,
    made: Arc<OnceLock<Made>>,
}

impl fmt::Debug for Documents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Documents").field("made", &self.made).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Made {
    json: Document,
    page: Document,
    files: Vec<(&'static str, Document)>,
}

#[derive(Debug)]
struct Document {
    text: Bytes,
    tag: HeaderValue,
    media_type: HeaderValue,
    is_gzip: bool,
}

impl Documents {
    /// Calls `document` at the first request.
    pub fn new(document: impl Fn() -> Value + Send + Sync + 'static) -> Self {
        Documents { document: Arc::new(document), made: Arc::default() }
    }

    fn made(&self) -> &Made {
        self.made.get_or_init(|| {
            let document = (self.document)();
            Made {
                page: Document::new(page::render(&document), "text/html; charset=utf-8"),
                json: Document::new(format!("{document:#}\n"), "application/json"),
                #[cfg(feature = "openapi-viewer")]
                files: viewer::files(),
                #[cfg(not(feature = "openapi-viewer"))]
                files: Vec::new(),
            }
        })
    }

    /// Responds to `GET /openapi.json` with these headers: the document, or 304 if the client has
    /// it.
    pub fn json(&self, asked: &HeaderMap) -> Response<Full<Bytes>> {
        self.made().json.reply(asked)
    }

    /// Responds to `GET /docs` with these headers: the page, or 304 if the client has it. Without
    /// scripts or without the `openapi-viewer` Cargo feature, the page is plain HTML with a link to
    /// `/openapi.json`.
    pub fn page(&self, asked: &HeaderMap) -> Response<Full<Bytes>> {
        let mut reply = self.made().page.reply(asked);
        let policy = HeaderValue::from_static(page::POLICY);
        reply.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
        reply
    }

    /// Responds to `GET /docs/{name}` with a file of the page. `None` if there is no such file,
    /// which is always the case without the `openapi-viewer` Cargo feature.
    pub fn file(&self, name: &str, asked: &HeaderMap) -> Option<Response<Full<Bytes>>> {
        let files = &self.made().files;
        files.iter().find(|(file, _)| *file == name).map(|(_, file)| file.reply(asked))
    }
}

impl Document {
    fn new(text: impl Into<Bytes>, media_type: &'static str) -> Self {
        let text = text.into();
        let hash = digest(&SHA256, &text);
        let start = hash.as_ref().iter().take(8).fold(0, |tag, byte| tag << 8 | u64::from(*byte));
        // Digits and quotes form a valid header value.
        let tag = HeaderValue::try_from(format!("\"{start:016x}\""));
        Document {
            tag: tag.unwrap_or_else(|_| HeaderValue::from_static("\"\"")),
            media_type: HeaderValue::from_static(media_type),
            text,
            is_gzip: false,
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
            if self.is_gzip {
                reply.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
        }
        reply.headers_mut().insert(ETAG, self.tag.clone());
        // The document may differ on another replica with a different configuration, and in the
        // next version.
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
