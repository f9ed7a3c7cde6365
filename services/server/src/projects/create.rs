//! `POST /projects`.

use corelane::Incoming;
use http::StatusCode;
use http::header::{HeaderValue, LOCATION};
use http::request::Parts;
use uuid::{Timestamp, Uuid};

use super::reply::{self, Refusal, Reply};
use super::{Projects, body};

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
