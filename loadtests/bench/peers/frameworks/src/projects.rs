//! `/projects`: JSON documents in PostgreSQL, through deadpool-postgres.

use std::collections::BTreeMap;
use std::io;
use std::str::from_utf8;
use std::sync::Arc;
use std::time::SystemTime;

use deadpool_postgres::{Client, Manager, Pool, PoolError};
use humantime::format_rfc3339_micros;
use serde_json::value::RawValue;
use subtle::ConstantTimeEq;
use tokio_postgres::{Config, NoTls, Row};
use uuid::Uuid;

/// Most connections of a process; the same for every contender.
const MOST_CONNECTIONS: usize = 8;

/// The tables of the reference service.
const TABLES: &str =
    include_str!("../../../../../services/server/src/projects/postgres/migrations/1-projects.sql");

const CREATE: &str =
    "INSERT INTO projects (id, document) VALUES ($1, $2) RETURNING version, created, updated";

const LOAD: &str = "SELECT version, created, updated, document FROM projects WHERE id = $1";

const SAVE: &str = "UPDATE projects SET document = $2, version = version + 1, updated = now()
     WHERE id = $1 AND ($3::bigint IS NULL OR version = $3) RETURNING version, created, updated";

const VERSION: &str = "SELECT version FROM projects WHERE id = $1";

/// The projects, as one pool of connections serves them.
#[derive(Clone, Debug)]
pub struct Projects {
    pool: Pool,
    token: Arc<str>,
}

/// A reply, in words that every framework has.
#[derive(Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Names and values of its fields.
    pub fields: Vec<(&'static str, String)>,
    /// JSON, or nothing.
    pub body: Vec<u8>,
}

/// Why there is no project in the reply.
enum Refusal {
    NoDocument,
    NoToken,
    NoProject,
    /// Its version is not that of If-Match.
    Stale,
    NoDatabase,
}

impl Projects {
    /// The share of one of `sharers` pools of this process; connections are opened when they are needed.
    pub(crate) fn new(
        config: &Config,
        token: &str,
        sharers: usize,
    ) -> Result<Self, tokio_postgres::Error> {
        let manager = Manager::new(config.clone(), NoTls);
        let size = (MOST_CONNECTIONS / sharers).max(1);
        let pool = Pool::builder(manager).max_size(size).build();
        let pool = pool.expect("a pool without time-outs needs no runtime");
        Ok(Projects { pool, token: token.into() })
    }

    /// Makes the tables where there are none. The connection is closed again: those of the pool
    /// belong to the event loops that use them.
    pub async fn prepare(&self) -> io::Result<()> {
        let client = self.pool.get().await.map_err(io::Error::other)?;
        let client = Client::take(client);
        let known = "SELECT to_regclass('projects') IS NOT NULL";
        let row = client.query_one(known, &[]).await.map_err(io::Error::other)?;
        if !row.get::<_, bool>(0) {
            client.batch_execute(TABLES).await.map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// `POST /projects`.
    pub async fn create(&self, authorization: Option<&[u8]>, document: &[u8]) -> Reply {
        let created = async {
            self.admit(authorization)?;
            let (id, document) = (Uuid::now_v7(), checked(document)?);
            let client = self.pool.get().await?;
            let statement = client.prepare_cached(CREATE).await?;
            let row = client.query_one(&statement, &[&id, &document]).await?;
            let mut reply = shown(201, id, &row, document);
            reply.fields.push(("location", format!("/projects/{id}")));
            Ok(reply)
        };
        created.await.unwrap_or_else(Refusal::reply)
    }

    /// `GET /projects/{id}`.
    pub async fn load(&self, id: &str) -> Reply {
        let loaded = async {
            let id = Uuid::parse_str(id).map_err(|_| Refusal::NoProject)?;
            let client = self.pool.get().await?;
            let statement = client.prepare_cached(LOAD).await?;
            let row = client.query_opt(&statement, &[&id]).await?.ok_or(Refusal::NoProject)?;
            Ok(shown(200, id, &row, row.get(3)))
        };
        loaded.await.unwrap_or_else(Refusal::reply)
    }

    /// `PUT /projects/{id}`.
    pub async fn save(
        &self,
        id: &str,
        authorization: Option<&[u8]>,
        if_match: Option<&[u8]>,
        document: &[u8],
    ) -> Reply {
        let saved = async {
            self.admit(authorization)?;
            let id = Uuid::parse_str(id).map_err(|_| Refusal::NoProject)?;
            let document = checked(document)?;
            // A tag that no project ever had matches no version.
            let expected = if_match.map(|tag| version(tag).unwrap_or(0));
            let client = self.pool.get().await?;
            let statement = client.prepare_cached(SAVE).await?;
            let row = client.query_opt(&statement, &[&id, &document, &expected]).await?;
            match row {
                Some(row) => Ok(shown(200, id, &row, document)),
                None => {
                    let statement = client.prepare_cached(VERSION).await?;
                    let there = client.query_opt(&statement, &[&id]).await?;
                    Err(there.map_or(Refusal::NoProject, |_| Refusal::Stale))
                }
            }
        };
        saved.await.unwrap_or_else(Refusal::reply)
    }

    /// Lets through who has the token.
    fn admit(&self, authorization: Option<&[u8]>) -> Result<(), Refusal> {
        let given = authorization.and_then(|field| field.strip_prefix(b"Bearer "));
        let known = given.is_some_and(|given| given.ct_eq(self.token.as_bytes()).into());
        known.then_some(()).ok_or(Refusal::NoToken)
    }
}

/// The text to store: a JSON object, as it was sent.
fn checked(document: &[u8]) -> Result<&str, Refusal> {
    let text = from_utf8(document).map_err(|_| Refusal::NoDocument)?.trim_ascii();
    let members = serde_json::from_str::<BTreeMap<String, &RawValue>>(text);
    // To put an id before them there must be some.
    members.ok().filter(|members| !members.is_empty()).map(|_| text).ok_or(Refusal::NoDocument)
}

/// The version that an entity tag names.
fn version(tag: &[u8]) -> Option<i64> {
    from_utf8(tag).ok()?.strip_prefix('"')?.strip_suffix('"')?.parse().ok()
}

/// A project: the document is put in as it is, after what the server says of it.
fn shown(status: u16, id: Uuid, row: &Row, document: &str) -> Reply {
    let version: i64 = row.get(0);
    let [created, updated] = [1, 2].map(|at| format_rfc3339_micros(row.get::<_, SystemTime>(at)));
    let mut body = format!(
        "{{\"id\":\"{id}\",\"version\":{version},\"created\":\"{created}\",\"updated\":\"{updated}\","
    );
    body.push_str(&document[1..]);
    let fields =
        vec![("content-type", "application/json".to_owned()), ("etag", format!("\"{version}\""))];
    Reply { status, fields, body: body.into_bytes() }
}

impl Refusal {
    fn reply(self) -> Reply {
        let status = match self {
            Refusal::NoDocument => 400,
            Refusal::NoToken => 401,
            Refusal::NoProject => 404,
            Refusal::Stale => 412,
            Refusal::NoDatabase => 503,
        };
        let mut fields = Vec::new();
        if status == 401 {
            fields.push(("www-authenticate", "Bearer".to_owned()));
        }
        Reply { status, fields, body: Vec::new() }
    }
}

impl From<PoolError> for Refusal {
    fn from(error: PoolError) -> Self {
        eprintln!("no connection to the database: {error}");
        Refusal::NoDatabase
    }
}

impl From<tokio_postgres::Error> for Refusal {
    fn from(error: tokio_postgres::Error) -> Self {
        eprintln!("the database refused a statement: {error}");
        Refusal::NoDatabase
    }
}
