//! What changes a project, and what reads one: `POST /projects`, and the methods of `/projects/{id}`.

use corelane::Incoming;
use http::StatusCode;
use http::header::{CACHE_CONTROL, ETAG, HeaderValue, LOCATION};
use http::request::Parts;
use http_body_util::Full;
use uuid::{Timestamp, Uuid};

use super::conditions::{Conditions, Expectation, Verdict};
use super::reply::{self, Refusal, Reply};
use super::store::{Changed, Version};
use super::{Projects, body};

impl Projects {
    /// Replaces the document of a project.
    pub(super) async fn replace(
        &self,
        id: Uuid,
        head: &Parts,
        body: Incoming,
    ) -> Result<Reply, Refusal> {
        // Errors of a request precede its conditions (RFC 9110 section 13.2.1).
        let document = body::document(&head.headers, body).await?;
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
    /// evaluated for the current version, which must still be current when the change is made.
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

/// A missing project fails no condition: its 404 comes first (RFC 9110 section 13.2.1).
fn done<T>(changed: Changed<T>) -> Result<T, Refusal> {
    match changed {
        Changed::Done(done) => Ok(done),
        Changed::Missing => Err(reply::not_found().into()),
        Changed::Conflict(current) => Err(reply::precondition_failed(current).into()),
    }
}

impl Projects {
    /// Stores a new project. It is durable when the reply is made.
    pub(super) async fn create(&self, head: &Parts, body: Incoming) -> Result<Reply, Refusal> {
        let document = body::document(&head.headers, body).await?;
        // IDs that start with the time are inserted at the end of the index.
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
