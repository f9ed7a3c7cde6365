//! `GET /projects/{id}`.

use http::StatusCode;
use http::header::{CACHE_CONTROL, ETAG, HeaderValue};
use http::request::Parts;
use http_body_util::Full;
use uuid::Uuid;

use super::Projects;
use super::conditions::{Conditions, Verdict};
use super::reply::{self, Refusal, Reply};

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
