//! A process's database, and each lane's access to it.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use corelane::{Lane, ServerHandle};
use corelane_service::config::ConfigErrors;
use uuid::Uuid;

use super::metrics::Metrics;
use super::postgres::{self, Postgres};
use super::sqlite::{self, Sqlite};
use super::store::{Changed, Project, StoreError, Version};
use crate::config::{Config, DatabaseKind};

/// Opened before the lanes start and closed after they end.
#[derive(Debug)]
pub(crate) struct Database {
    kind: Kind,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
enum Kind {
    Sqlite(sqlite::Database),
    Postgres(Arc<postgres::Settings>, ServerHandle),
}

impl Database {
    /// Checks the PostgreSQL configuration even if projects are stored in SQLite, because `--check`
    /// would show a password in it.
    pub(crate) fn check(config: &Config, replica: &str) -> Result<(), ConfigErrors> {
        if config.database_kind == DatabaseKind::Postgres || !config.database_url.is_empty() {
            postgres::Settings::new(config, replica).map_err(|error| ConfigErrors(vec![error]))?;
        }
        Ok(())
    }

    /// `None` if no database is configured.
    ///
    /// # Errors
    ///
    /// The database must not be used. The message is for the operator. It is not an error if the
    /// database is temporarily unavailable.
    pub(crate) fn open(
        config: &Config,
        metrics: &Arc<Metrics>,
        server: &ServerHandle,
        replica: &str,
    ) -> Result<Option<Self>, String> {
        let metrics = Arc::clone(metrics);
        let kind = match (config.database_kind, &config.database_path) {
            (DatabaseKind::Sqlite, Some(path)) => {
                let settings = sqlite::Settings {
                    path: path.clone(),
                    connections: config.database_connections as usize,
                    wait: config.database_wait,
                    queue: config.database_queue,
                    statement_timeout: config.database_statement_timeout,
                };
                Kind::Sqlite(sqlite::Database::open(settings, Arc::clone(&metrics), server)?)
            }
            (DatabaseKind::Sqlite, None) => return Ok(None),
            (DatabaseKind::Postgres, _) => {
                let settings = postgres::Settings::new(config, replica)?;
                Kind::Postgres(Arc::new(settings), server.clone())
            }
        };
        Ok(Some(Database { kind, metrics }))
    }

    pub(crate) fn lane(&self, lane: &Lane) -> Store {
        let backend = match &self.kind {
            Kind::Sqlite(sqlite) => Backend::Sqlite(sqlite.lane()),
            Kind::Postgres(settings, server) => {
                let dependency = server.dependency("database");
                let metrics = Arc::clone(&self.metrics);
                let settings = settings.share_of(lane);
                Backend::Postgres(Postgres::start(&settings, dependency, metrics))
            }
        };
        Store::new(backend, Arc::clone(&self.metrics))
    }

    /// Finishes queued operations after the last lane has exited.
    pub(crate) fn close(self) {
        match self.kind {
            Kind::Sqlite(sqlite) => sqlite.close(),
            // An operation that has not responded by then has not reported success.
            Kind::Postgres(..) => {}
        }
    }
}

/// A lane's access to the database. A change is durable when its future is ready. If the future is
/// dropped earlier, the change may or may not happen.
#[derive(Debug)]
pub(crate) struct Store {
    backend: Backend,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
enum Backend {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

macro_rules! ask {
    ($store:ident . $operation:ident ($($argument:expr),*)) => {
        match &$store.backend {
            Backend::Sqlite(sqlite) => sqlite.$operation($($argument),*).await,
            Backend::Postgres(postgres) => postgres.$operation($($argument),*).await,
        }
    };
}

impl Store {
    fn new(backend: Backend, metrics: Arc<Metrics>) -> Self {
        Store { backend, metrics }
    }

    pub(crate) async fn get(&self, id: Uuid) -> Result<Option<Project>, StoreError> {
        let began = Instant::now();
        let got = ask!(self.get(id));
        let names = |project: &Option<_>| if project.is_some() { "done" } else { "missing" };
        self.metrics.operation("get", got.as_ref().map(names).map_err(|e| *e), began.elapsed());
        got
    }

    /// Lists projects in the order of their IDs, which is roughly the order of creation.
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
