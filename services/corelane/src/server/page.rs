//! Pages that a service adds to the admin port.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Full, Limited};
use tokio::time::timeout;

use crate::message::problem::Problem;

const BODY_BYTES: usize = 64 * 1024;

const BODY_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) type Handler = dyn Fn(Request<Bytes>) -> Response<Full<Bytes>> + Send + Sync;

/// A path on the admin port that the service serves.
#[derive(Clone)]
pub(crate) struct Page {
    pub(crate) path: &'static str,
    pub(crate) about: &'static str,
    pub(crate) handler: Arc<Handler>,
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path)
    }
}

impl Page {
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        if body.size_hint().lower() > BODY_BYTES as u64 {
            return too_large();
        }
        let body = match timeout(BODY_TIMEOUT, Limited::new(body, BODY_BYTES).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                return too_large();
            }
            Ok(Err(_)) => return refused(Problem::from(StatusCode::BAD_REQUEST)),
            Err(_) => return refused(Problem::from(StatusCode::REQUEST_TIMEOUT)),
        };
        (self.handler)(Request::from_parts(head, body))
    }
}

fn too_large() -> Response<Full<Bytes>> {
    let problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large");
    refused(problem.detail(format!("a request body may have at most {BODY_BYTES} bytes")))
}

/// Rejects a request and closes the connection, because the rest of the body is indistinguishable
/// from the next request.
fn refused(problem: Problem) -> Response<Full<Bytes>> {
    let close = HeaderValue::from_static("close");
    problem.header(http::header::CONNECTION, close).into_response()
}
