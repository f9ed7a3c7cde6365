//! The database of projects, of either kind.

use std::time::SystemTime;

use bytes::Bytes;
use uuid::Uuid;

use super::metrics::Metrics;
use super::postgres::Postgres;
use super::sqlite::Sqlite;

/// Version of a project: starts at 1, and each change adds one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(pub(crate) i64);

impl Version {
    /// The strong entity tag of this version (RFC 9110 section 8.8.3).
    pub(crate) fn tag(self) -> String {
        format!("\"{}\"", self.0)
    }

    /// The version with this tag.
    pub(crate) fn from_tag(opaque: &[u8]) -> Option<Self> {
        let version: i64 = str::from_utf8(opaque).ok()?.parse().ok()?;
        (version > 0 && version.to_string().as_bytes() == opaque).then_some(Version(version))
    }
}

/// A project as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    pub(crate) id: Uuid,
    pub(crate) version: Version,
    pub(crate) created: SystemTime,
    pub(crate) updated: SystemTime,
    /// The text of a JSON object with at least one member, without whitespace around it.
    pub(crate) document: Bytes,
}

/// Why a database operation failed. The details are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreError {
    /// The database is down.
    Unavailable,
    /// Too many operations wait for it.
    Exhausted,
    /// It took too long.
    TimedOut,
    /// An unexpected error.
    Failed,
}

impl StoreError {
    /// The label in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            StoreError::Unavailable => "unavailable",
            StoreError::Exhausted => "exhausted",
            StoreError::TimedOut => "timed_out",
            StoreError::Failed => "failed",
        }
    }
}

/// The result of a change.
#[derive(Debug)]
pub(crate) enum Changed<T> {
    Done(T),
    /// There is no such project.
    Missing,
    /// It has this version, not the expected one.
    Conflict(Version),
}

/// The database for a lane. A change is durable when its future is ready. If the future is dropped
/// before that, the change may or may not be made.
#[derive(Debug)]
pub(crate) struct Store {
    database: Database,
    metrics: Arc<Metrics>,
}

/// The kinds of databases.
#[derive(Debug)]
pub(crate) enum Database {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

macro_rules! ask {
    ($store:ident . $operation:ident ($($argument:expr),*)) => {
        match &$store.database {
            Database::Sqlite(sqlite) => sqlite.$operation($($argument),*).await,
            Database::Postgres(postgres) => postgres.$operation($($argument),*).await,
        }
    };
}

impl Store {
    pub(crate) fn new(database: Database, metrics: Arc<Metrics>) -> Self {
        Store { database, metrics }
    }

    pub(crate) async fn get(&self, id: Uuid) -> Result<Option<Project>, StoreError> {
        let began = Instant::now();
        let got = ask!(self.get(id));
        let names = |project: &Option<_>| if project.is_some() { "done" } else { "missing" };
        self.metrics.operation("get", got.as_ref().map(names).map_err(|e| *e), began.elapsed());
        got
    }

    /// Projects in the order of their IDs, which is approximately that of their creation.
    pub(crate) async fn list(
        &self,
        after: Option<Uuid>,
        limit: u32,
    ) -> Result<Vec<Project>, StoreError> {
        let began = Instant::now();
        let listed = ask!(self.list(after, limit));
        let result = listed.as_ref().map(|_| "done").map_err(|e| *e);
        self.metrics.operation("list", result, began.elapsed());
        listed
    }

    pub(crate) async fn create(&self, id: Uuid, document: Bytes) -> Result<Project, StoreError> {
        let began = Instant::now();
        let created = ask!(self.create(id, document));
        let result = created.as_ref().map(|_| "done").map_err(|e| *e);
        self.metrics.operation("create", result, began.elapsed());
        created
    }

    pub(crate) async fn replace(
        &self,
        id: Uuid,
        document: Bytes,
        expected: Option<Version>,
    ) -> Result<Changed<Project>, StoreError> {
        let began = Instant::now();
        let replaced = ask!(self.replace(id, document, expected));
        let result = replaced.as_ref().map(Changed::name).map_err(|e| *e);
        self.metrics.operation("replace", result, began.elapsed());
        replaced
    }

    pub(crate) async fn delete(
        &self,
        id: Uuid,
        expected: Option<Version>,
    ) -> Result<Changed<()>, StoreError> {
        let began = Instant::now();
        let deleted = ask!(self.delete(id, expected));
        let result = deleted.as_ref().map(Changed::name).map_err(|e| *e);
        self.metrics.operation("delete", result, began.elapsed());
        deleted
    }
}

impl<T> Changed<T> {
    /// The label in metrics.
    fn name(&self) -> &'static str {
        match self {
            Changed::Done(_) => "done",
            Changed::Missing => "missing",
            Changed::Conflict(_) => "conflict",
        }
    }
}
