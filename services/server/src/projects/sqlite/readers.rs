//! A lane's read connections. A read may wait for the disk, so it runs off the lane.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::Settings;
use super::fault::Fault;
use super::file::{File, Opened};
use super::health::{Access, Health};
use super::queue::Line;
use crate::projects::metrics::Metrics;
use crate::projects::store::StoreError;

/// The read connections of a lane, opened on first use and kept.
#[derive(Debug)]
pub(super) struct Readers {
    pool: Arc<Pool>,
    turns: Arc<Semaphore>,
    wait: Duration,
    line: Line,
    metrics: Arc<Metrics>,
}

/// Idle connections, shared only by the lane's blocking threads.
#[derive(Debug)]
struct Pool {
    file: File,
    health: Arc<Health>,
    idle: Mutex<Vec<Opened>>,
}

struct Turn {
    _permit: OwnedSemaphorePermit,
    metrics: Arc<Metrics>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.metrics.in_use.dec();
    }
}

impl Readers {
    pub(super) fn new(
        file: File,
        health: Arc<Health>,
        line: Line,
        metrics: Arc<Metrics>,
        settings: &Settings,
    ) -> Self {
        let pool = Arc::new(Pool { file, health, idle: Mutex::default() });
        let turns = Arc::new(Semaphore::new(settings.connections));
        Readers { pool, turns, wait: settings.wait, line, metrics }
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let turn = self.turn().await?;
        let pool = Arc::clone(&self.pool);
        let patience = pool.file.patience;
        let read = corelane::blocking(move || {
            let outcome = pool.run(work);
            // Released after the connection has been returned.
            drop(turn);
            outcome
        });
        match timeout(patience, read).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(corelane::BlockingError)) => Err(StoreError::Exhausted),
            // The disk hangs. The thread continues and keeps its connection until the call returns.
            Err(_) => Err(StoreError::TimedOut),
        }
    }

    async fn turn(&self) -> Result<Turn, StoreError> {
        let began = Instant::now();
        let permit = match Arc::clone(&self.turns).try_acquire_owned() {
            Ok(permit) => Some(permit),
            // Only an operation that must wait is queued, so changes do not delay other reads.
            Err(_) => {
                let _place = self.line.enter()?;
                // The semaphore is never closed.
                let acquired = timeout(self.wait, Arc::clone(&self.turns).acquire_owned()).await;
                acquired.ok().and_then(Result::ok)
            }
        };
        self.metrics.connection_wait.observe(began.elapsed().as_secs_f64());
        let permit = permit.ok_or(StoreError::Exhausted)?;
        self.metrics.in_use.inc();
        Ok(Turn { _permit: permit, metrics: Arc::clone(&self.metrics) })
    }
}

impl Pool {
    fn run<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let outcome = self.connection().and_then(|opened| {
            let read = work(&opened.connection)?;
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(opened);
            Ok(read)
        });
        match outcome {
            Ok(read) => {
                self.health.works(Access::Read);
                Ok(read)
            }
            // The connection is closed.
            Err(fault) => Err(self.health.failed(Access::Read, &fault)),
        }
    }

    fn connection(&self) -> Result<Opened, Fault> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        while let Some(opened) = idle() {
            // A connection to a removed file would return stale data.
            if self.file.check_kept(&opened).is_ok() {
                return Ok(opened);
            }
        }
        self.file.open_reader()
    }
}
