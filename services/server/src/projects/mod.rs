//! `/projects`: JSON documents in a database.

mod conditions;
pub(crate) mod database;
mod describe;
mod document;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod json;
mod list;
mod methods;
pub(crate) mod metrics;
pub(crate) mod postgres;
mod reply;
mod shape;
pub(crate) mod sqlite;
pub(crate) mod store;

use corelane::{BodyError, Incoming, Problem};
use http::header::{ALLOW, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use uuid::fmt::Hyphenated;
use uuid::{ContextV7, Uuid};

use database::Store;
pub(crate) use describe::{describe, schemas};
use reply::{Refusal, Reply, bad_parameter};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource<'a> {
    All,
    /// The project with this ID, if it is valid.
    One(&'a str),
}

impl<'a> Resource<'a> {
    pub(crate) fn of(path: &'a str) -> Option<Self> {
        match path.strip_prefix("/projects")? {
            "" => Some(Resource::All),
            rest => {
                let id = rest.strip_prefix('/')?;
                (!id.is_empty() && !id.contains('/')).then_some(Resource::One(id))
            }
        }
    }

    fn allow(self) -> &'static str {
        match self {
            Resource::All => "GET, HEAD, POST, OPTIONS",
            Resource::One(_) => "GET, HEAD, PUT, DELETE, OPTIONS",
        }
    }

    fn takes(self, method: &Method) -> bool {
        match *method {
            Method::GET | Method::HEAD => true,
            Method::POST => self == Resource::All,
            Method::PUT | Method::DELETE => self != Resource::All,
            _ => false,
        }
    }

    /// Answers requests without a token or the database: `OPTIONS`, and methods that are not
    /// allowed.
    pub(crate) fn answer_at_once(self, method: &Method) -> Option<Reply> {
        if self.takes(method) {
            return None;
        }
        let field = HeaderValue::from_static(self.allow());
        if *method == Method::OPTIONS {
            let mut reply = Response::new(Default::default());
            *reply.status_mut() = StatusCode::NO_CONTENT;
            reply.headers_mut().insert(ALLOW, field);
            return Some(reply);
        }
        let refusal = Problem::from(StatusCode::METHOD_NOT_ALLOWED).header(ALLOW, field);
        Some(refusal.into_response())
    }
}

pub(crate) fn is_write(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::DELETE)
}

#[derive(Debug)]
pub(crate) struct Projects {
    store: Store,
    ids: ContextV7,
}

impl Projects {
    pub(crate) fn new(store: Store) -> Self {
        Projects { store, ids: ContextV7::new() }
    }

    /// Answers a request after its method and token were checked.
    ///
    /// # Errors
    ///
    /// The request body was incomplete.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Result<Reply, BodyError> {
        let (head, body) = request.into_parts();
        match self.handle(&head, body).await {
            Ok(reply) => Ok(reply),
            Err(Refusal::Problem(problem)) => Ok(problem.into_response()),
            Err(Refusal::Body(error)) => Err(error),
        }
    }

    async fn handle(&self, head: &Parts, body: Incoming) -> Result<Reply, Refusal> {
        match (Resource::of(head.uri.path()), &head.method) {
            (Some(Resource::All), &Method::POST) => self.create(head, body).await,
            (Some(Resource::All), _) => self.list(head.uri.query().unwrap_or("")).await,
            (Some(Resource::One(id)), method) => {
                let id = parse_id(id)?;
                match *method {
                    Method::PUT => self.replace(id, head, body).await,
                    Method::DELETE => self.delete(id, head).await,
                    _ => self.read(id, head).await,
                }
            }
            (None, _) => Err(Problem::from(StatusCode::NOT_FOUND).into()),
        }
    }
}

/// Accepts only the usual form with hyphens, so that a project has a single address in caches.
fn parse_id(text: &str) -> Result<Uuid, Problem> {
    let mut usual = [0; Hyphenated::LENGTH];
    let id = Uuid::try_parse(text).ok();
    let id = id.filter(|id| id.hyphenated().encode_lower(&mut usual) == text);
    id.ok_or_else(|| bad_parameter("id", "a UUID in lower case, with hyphens"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_all_projects_or_one() {
        for (path, resource) in [
            ("/projects", Some(Resource::All)),
            ("/projects/x", Some(Resource::One("x"))),
            ("/projects/", None),
            ("/projects/x/y", None),
            ("/projectsx", None),
            ("/project", None),
        ] {
            assert_eq!(Resource::of(path), resource, "{path}");
        }
    }

    #[test]
    fn what_is_taken_is_what_is_said_to_be() {
        for resource in [Resource::All, Resource::One("x")] {
            for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"] {
                let named = resource.allow().split(", ").any(|allowed| allowed == method);
                let method = Method::from_bytes(method.as_bytes()).expect("a method");
                assert_eq!(resource.takes(&method), named, "{resource:?} {method}");
            }
        }
    }

    #[test]
    fn ids_have_one_form() {
        let id = "018f4d5e-7c3a-7b2f-9d10-0123456789ab";
        assert!(parse_id(id).is_ok_and(|parsed| parsed.to_string() == id));
        for wrong in [id.to_uppercase(), id.replace('-', ""), format!("{{{id}}}"), "x".to_owned()] {
            assert!(parse_id(&wrong).is_err(), "{wrong}");
        }
    }
}
