//! Responses about projects: the project itself, and errors.

use std::time::Duration;

use bytes::Bytes;
use corelane::Problem;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::Full;
use humantime::format_rfc3339_micros;

use super::store::{Project, StoreError, Version};

pub(crate) type Reply = Response<Full<Bytes>>;

#[derive(Debug)]
pub(crate) enum Refusal {
    Problem(Problem),
    Body(corelane::BodyError),
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Refusal::Problem(problem)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let (slug, detail, after) = match error {
            StoreError::Failed => {
                return Problem::from(StatusCode::INTERNAL_SERVER_ERROR).into();
            }
            StoreError::Exhausted => {
                ("overloaded", "too many requests wait for the database", Duration::from_secs(1))
            }
            StoreError::TimedOut => {
                ("database-unavailable", "the database took too long", Duration::from_secs(1))
            }
            StoreError::Locked => (
                "database-unavailable",
                "another process, such as a replica that is stopped, keeps the lock of the database file",
                Duration::from_secs(1),
            ),
            StoreError::Unavailable => {
                ("database-unavailable", "the database is down", Duration::from_secs(5))
            }
        };
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, slug)
            .detail(detail)
            .header(RETRY_AFTER, HeaderValue::from(after.as_secs()))
            .into()
    }
}

/// Rejects a parameter; the response names the parameter and its allowed values.
pub(crate) fn bad_parameter(name: &str, allowed: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "bad-parameter")
        .detail(format!("{name} must be {allowed}"))
        .member("parameter", name)
}

pub(crate) fn not_found() -> Problem {
    Problem::from(StatusCode::NOT_FOUND).detail("there is no project with this id")
}

/// The problem for a project with this version instead of the requested version.
pub(crate) fn precondition_failed(current: Version) -> Problem {
    Problem::from(StatusCode::PRECONDITION_FAILED)
        .detail(format!("the project's entity tag is {}", current.tag()))
}

pub(crate) fn etag(version: Version) -> HeaderValue {
    HeaderValue::try_from(version.tag()).expect("digits in quotes are a header value")
}

/// Caches must revalidate the response.
pub(crate) fn json(body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    reply
}

pub(crate) fn project(project: &Project) -> Reply {
    let mut text = Vec::with_capacity(ENVELOPE + project.document.len());
    write(project, &mut text);
    let mut reply = json(text);
    reply.headers_mut().insert(ETAG, etag(project.version));
    reply
}

pub(crate) const ENVELOPE: usize = 160;

/// Inserts the document in its stored form, because parsing and writing 5 kB takes many times
/// longer.
pub(crate) fn write(project: &Project, out: &mut Vec<u8>) {
    use std::io::Write as _;
    let Project { id, version, created, updated, document } = project;
    let (created, updated) = (format_rfc3339_micros(*created), format_rfc3339_micros(*updated));
    // Writing to a vector cannot fail.
    let _ = write!(
        out,
        "{{\"id\":\"{id}\",\"version\":{},\"created\":\"{created}\",\"updated\":\"{updated}\",",
        version.0
    );
    out.extend_from_slice(&document[1..]);
}
