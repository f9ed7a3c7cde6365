//! `GET /static/...`: files under a root.

use std::path::Path;

use bytes::Bytes;
use corelane::Problem;
use http::header::{CONTENT_RANGE, HeaderValue};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{Either, Full};
use tower::ServiceExt;
use tower_http::services::ServeDir;

use crate::app::Body;

/// The files of one root. Conditional and range requests, media types and the confinement to
/// the root are tower-http's. Files are read on blocking threads of the lane's event loop, which are
/// not pinned: a slow disk keeps neither the event loop nor its CPU.
#[derive(Clone, Debug)]
pub(crate) struct Files(ServeDir);

impl Files {
    pub(crate) fn new(root: &Path) -> Self {
        Files(
            ServeDir::new(root)
                .append_index_html_on_directories(true)
                .redirect_path_prefix("/static"),
        )
    }

    /// Answers a GET or HEAD for `path`, which is relative to the root and still encoded.
    pub(crate) fn get<B>(
        &self,
        path: &str,
        request: &Request<B>,
    ) -> impl Future<Output = Response<Body>> + 'static {
        let files = self.0.clone();
        // A path of a valid URI makes a valid URI again.
        let uri = Uri::try_from(format!("/{path}")).unwrap_or_default();
        let mut inner = Request::new(Full::<Bytes>::default());
        *inner.method_mut() = request.method().clone();
        *inner.headers_mut() = request.headers().clone();
        *inner.uri_mut() = uri;
        async move {
            let reply = match files.oneshot(inner).await {
                Ok(reply) => reply,
                Err(never) => match never {},
            };
            if reply.status().is_client_error() || reply.status().is_server_error() {
                return problem(reply.status(), reply.headers().get(CONTENT_RANGE))
                    .map(Either::Left);
            }
            reply.map(Either::Right)
        }
    }
}

/// 416 tells the length of the file in Content-Range (RFC 9110 section 15.5.17).
fn problem(status: StatusCode, range: Option<&HeaderValue>) -> Response<Full<Bytes>> {
    let mut problem = Problem::from(status);
    if let Some(range) = range {
        problem = problem.header(CONTENT_RANGE, range.clone());
    }
    problem.into_response()
}
