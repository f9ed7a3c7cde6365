//! Changes and reads projects: `POST /projects`, and the methods of `/projects/{id}`.

use std::mem;

use bytes::{Bytes, BytesMut};
use corelane::{Incoming, Problem};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue,
    LOCATION,
};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use uuid::{Timestamp, Uuid};

use super::conditions::{Conditions, Expectation, Verdict};
use super::reply::{self, Refusal, Reply};
use super::store::{Changed, Version};
use super::{Projects, document};

impl Projects {
    pub(super) async fn replace(
        &self,
        id: Uuid,
        head: &Parts,
        body: Incoming,
    ) -> Result<Reply, Refusal> {
        // A request's errors precede its conditions (RFC 9110 section 13.2.1).
        let document = document_of(&head.headers, body).await?;
        let conditions = Conditions::read(&head.headers)?;
        let expected = self.expected(id, &conditions).await?;
        let replaced = done(self.store.replace(id, document, expected).await?)?;
        Ok(reply::project(&replaced))
    }

    pub(super) async fn delete(&self, id: Uuid, head: &Parts) -> Result<Reply, Refusal> {
        let conditions = Conditions::read(&head.headers)?;
        let expected = self.expected(id, &conditions).await?;
        done(self.store.delete(id, expected).await?)?;
        let mut reply = Reply::new(Full::default());
        *reply.status_mut() = StatusCode::NO_CONTENT;
        Ok(reply)
    }

    /// The version that the change requires. Conditions that one version cannot express are
    /// evaluated against the current version, which must still be current when the change is made.
    async fn expected(
        &self,
        id: Uuid,
        conditions: &Conditions,
    ) -> Result<Option<Version>, Refusal> {
        match conditions.expectation() {
            Expectation::Any => return Ok(None),
            Expectation::Exactly(version) => return Ok(Some(version)),
            Expectation::Ask => {}
        }
        let version = self.store.get(id).await?.ok_or_else(reply::not_found)?.version;
        match conditions.evaluate(version, false) {
            Verdict::Proceed => Ok(Some(version)),
            _ => Err(reply::precondition_failed(version).into()),
        }
    }
}

/// If the project does not exist, no condition fails, because the 404 takes precedence (RFC 9110
/// section 13.2.1).
fn done<T>(changed: Changed<T>) -> Result<T, Refusal> {
    match changed {
        Changed::Done(done) => Ok(done),
        Changed::Missing => Err(reply::not_found().into()),
        Changed::Conflict(current) => Err(reply::precondition_failed(current).into()),
    }
}

impl Projects {
    /// The new project is durable when the response is created.
    pub(super) async fn create(&self, head: &Parts, body: Incoming) -> Result<Reply, Refusal> {
        let document = document_of(&head.headers, body).await?;
        // Time-ordered IDs are inserted at the end of the index.
        let id = Uuid::new_v7(Timestamp::now(&self.ids));
        let project = self.store.create(id, document).await?;
        let mut reply = reply::project(&project);
        *reply.status_mut() = StatusCode::CREATED;
        let location = HeaderValue::try_from(format!("/projects/{id}"));
        reply.headers_mut().insert(LOCATION, location.expect("an id is a header value"));
        Ok(reply)
    }
}

impl Projects {
    pub(super) async fn read(&self, id: Uuid, head: &Parts) -> Result<Reply, Refusal> {
        let conditions = Conditions::read(&head.headers)?;
        let project = self.store.get(id).await?.ok_or_else(reply::not_found)?;
        match conditions.evaluate(project.version, true) {
            Verdict::Proceed => Ok(reply::project(&project)),
            Verdict::Failed => Err(reply::precondition_failed(project.version).into()),
            Verdict::NotModified => {
                // The headers that the 200 would have had (RFC 9110 section 15.4.5).
                let mut reply = Reply::new(Full::default());
                *reply.status_mut() = StatusCode::NOT_MODIFIED;
                reply.headers_mut().insert(ETAG, reply::etag(project.version));
                reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
                Ok(reply)
            }
        }
    }
}

/// Maximum size of a document, about ten times the usual size.
const MOST: usize = 64 << 10;

/// Reads the body even before other checks, because a connection with an unread body cannot be
/// reused.
async fn document_of(headers: &HeaderMap, body: Incoming) -> Result<Bytes, Refusal> {
    let text = collect(body).await?;
    check_type(headers)?;
    Ok(document::validate(text)?)
}

/// Rejects types other than plain JSON, and names the accepted type (RFC 9110 section 15.5.16).
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let unsupported = || Problem::from(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    // JSON has no parameters: a charset has no effect (RFC 8259 section 11).
    let is_json = |value: &HeaderValue| {
        let essence = value.as_bytes().split(|&byte| byte == b';').next().unwrap_or_default();
        essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
    };
    if !types.next().is_some_and(is_json) || types.next().is_some() {
        return Err(unsupported()
            .detail("the content type must be application/json")
            .header(ACCEPT, HeaderValue::from_static("application/json")));
    }
    let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(CONTENT_ENCODING).iter().all(plain) {
        return Err(unsupported()
            .detail("the body must have no content coding")
            .header(ACCEPT_ENCODING, HeaderValue::from_static("identity")));
    }
    Ok(())
}

/// Reads the entire body, or just enough to see that it is too large. Does not copy a body that
/// arrives in one piece.
async fn collect(mut body: Incoming) -> Result<Bytes, Refusal> {
    let announced = body.size_hint().lower();
    if announced > MOST as u64 {
        return Err(too_large().into());
    }
    let mut whole = Bytes::new();
    let mut pieces = BytesMut::new();
    // The last piece of a body with a Content-Length is known to be the last.
    while !body.is_end_stream()
        && let Some(frame) = body.frame().await
    {
        if let Ok(data) = frame.map_err(Refusal::Body)?.into_data() {
            if whole.len() + pieces.len() + data.len() > MOST {
                return Err(too_large().into());
            }
            if whole.is_empty() && pieces.is_empty() {
                whole = data;
                continue;
            }
            if pieces.is_empty() {
                pieces.reserve(announced as usize);
                pieces.extend_from_slice(&mem::take(&mut whole));
            }
            pieces.extend_from_slice(&data);
        }
    }
    Ok(if pieces.is_empty() { whole } else { pieces.freeze() })
}

fn too_large() -> Problem {
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large")
        .detail(format!("a document has at most {MOST} bytes"))
}
