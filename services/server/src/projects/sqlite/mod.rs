//! Projects in an SQLite file: one writer thread per process, and readers per lane. Several
//! processes on one machine may share the file.

mod fault;
mod file;
mod health;
mod queue;
mod readers;
mod statements;
mod writer;

use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use corelane::ServerHandle;
use rusqlite::Connection;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::metrics::Metrics;
use super::store::{Changed, Project, StoreError, Version};
use fault::Fault;
use file::File;
use health::{Access, Health};
use queue::{Change, Job, Line};
use readers::Readers;
use writer::Writer;

/// Maximum size of the write-ahead log: four times its growth between two checkpoints without
/// readers.
const LOG_LIMIT: u64 = 16 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) path: PathBuf,
    pub(crate) connections: usize,
    pub(crate) wait: Duration,
    pub(crate) queue: u64,
    pub(crate) statement_timeout: Duration,
}

#[derive(Debug)]
pub(crate) struct Database {
    settings: Settings,
    file: File,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    changes: mpsc::Sender<Box<dyn Job>>,
    /// Signals that the writer has closed the file. The mutex exists only because lanes share this
    /// type.
    ended: Mutex<mpsc::Receiver<()>>,
}

impl Database {
    /// Opens or creates the file, and starts the writer. While the file is temporarily unusable,
    /// the `database` dependency is down.
    ///
    /// # Errors
    ///
    /// The file belongs to another program or a newer version, or a thread could not be started.
    pub(crate) fn open(
        settings: Settings,
        metrics: Arc<Metrics>,
        server: &ServerHandle,
    ) -> Result<Self, String> {
        let file = File { path: settings.path.clone(), patience: settings.statement_timeout };
        let health = Arc::new(Health::new(settings.path.clone(), server));
        let opened = match file.open_writer(true) {
            Ok(opened) => Some(opened),
            Err(fault @ Fault::Refused(_)) => {
                return Err(format!("database.path = {}: {fault}", settings.path.display()));
            }
            Err(fault) => {
                health.failed(Access::Write, &fault);
                None
            }
        };
        let writer = Writer {
            file: file.clone(),
            health: Arc::clone(&health),
            metrics: Arc::clone(&metrics),
            existed: opened.is_some(),
            opened,
            next_cut: Instant::now(),
            log_is_held: false,
            next_check: Instant::now(),
            locked: false,
        };
        let (changes, jobs) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        std::thread::Builder::new()
            .name("database-writer".to_owned())
            .spawn(move || {
                writer.run(&jobs);
                let _ = end.send(());
            })
            .map_err(|error| format!("the database's writer could not start: {error}"))?;
        Ok(Database { settings, file, health, metrics, changes, ended: Mutex::new(ended) })
    }

    pub(crate) fn lane(&self) -> Sqlite {
        let (file, health) = (self.file.clone(), Arc::clone(&self.health));
        let metrics = Arc::clone(&self.metrics);
        let line = Line::new(self.settings.queue, Arc::clone(&metrics));
        Sqlite {
            readers: Readers::new(file, Arc::clone(&health), line.clone(), metrics, &self.settings),
            changes: self.changes.clone(),
            health,
            line,
        }
    }

    /// Waits for queued changes to be committed and the file to be closed, after the last lane has
    /// exited. Operations without a response did not report success, so the wait is limited.
    pub(crate) fn close(self) {
        let Database { settings, changes, ended, .. } = self;
        drop(changes);
        let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(settings.statement_timeout) {
            tracing::warn!(
                "the database is still being written; what was not answered may be lost"
            );
        }
    }
}

#[derive(Debug)]
pub(crate) struct Sqlite {
    readers: Readers,
    changes: mpsc::Sender<Box<dyn Job>>,
    health: Arc<Health>,
    line: Line,
}

impl Sqlite {
    pub(crate) async fn get(&self, id: Uuid) -> Result<Option<Project>, StoreError> {
        self.readers.read(move |connection| statements::get(connection, id)).await
    }

    pub(crate) async fn list(
        &self,
        after: Option<Uuid>,
        limit: u32,
    ) -> Result<Vec<Project>, StoreError> {
        self.readers.read(move |connection| statements::list(connection, after, limit)).await
    }

    pub(crate) async fn create(&self, id: Uuid, document: Bytes) -> Result<Project, StoreError> {
        let bytes = document.len();
        self.change(bytes, move |connection| statements::create(connection, id, &document)).await
    }

    pub(crate) async fn replace(
        &self,
        id: Uuid,
        document: Bytes,
        expected: Option<Version>,
    ) -> Result<Changed<Project>, StoreError> {
        let bytes = document.len();
        self.change(bytes, move |connection| {
            statements::replace(connection, id, &document, expected)
        })
        .await
    }

    pub(crate) async fn delete(
        &self,
        id: Uuid,
        expected: Option<Version>,
    ) -> Result<Changed<()>, StoreError> {
        self.change(0, move |connection| statements::delete(connection, id, expected)).await
    }

    /// The change is durable when this returns.
    async fn change<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let place = self.line.enter()?;
        let (reply, answer) = oneshot::channel();
        let change = Change { work, bytes, made: Instant::now(), done: None, reply, place };
        // The writer ends only with the lanes, or with a panic.
        if self.changes.send(Box::new(change)).is_err() {
            return Err(self.health.failed(Access::Write, &Fault::WriterEnded));
        }
        answer.await.unwrap_or(Err(StoreError::Failed))
    }
}
