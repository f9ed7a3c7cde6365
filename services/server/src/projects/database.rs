//! The configured database of a process.

use std::sync::Arc;

use corelane::ServerHandle;

use super::metrics::Metrics;
use super::postgres::{self, Postgres};
use super::sqlite;
use super::store::{self, Store};
use crate::config::{Config, DatabaseKind};

/// The database of a process: opened before the lanes, closed after them.
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
    /// Opens the configured database; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The database must not be used; a message for the operator. A database that is temporarily
    /// unavailable is not an error.
    pub(crate) fn open(
        config: &Config,
        metrics: &Arc<Metrics>,
        server: &ServerHandle,
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
                let settings = postgres::Settings::new(config)?;
                Kind::Postgres(Arc::new(settings), server.clone())
            }
        };
        Ok(Some(Database { kind, metrics }))
    }

    /// The database for a lane.
    pub(crate) fn lane(&self) -> Store {
        let database = match &self.kind {
            Kind::Sqlite(sqlite) => store::Database::Sqlite(sqlite.lane()),
            Kind::Postgres(settings, server) => {
                let dependency = server.dependency("database");
                let metrics = Arc::clone(&self.metrics);
                store::Database::Postgres(Postgres::start(settings, dependency, metrics))
            }
        };
        Store::new(database, Arc::clone(&self.metrics))
    }

    /// Finishes queued operations. Called when no lane is left.
    pub(crate) fn close(self) {
        match self.kind {
            Kind::Sqlite(sqlite) => sqlite.close(),
            // An operation without a reply by then did not report success.
            Kind::Postgres(..) => {}
        }
    }
}
