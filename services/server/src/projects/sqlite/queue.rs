//! Queues: changes for the writer, and the limit on a lane's waiting operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::fault::Fault;
use crate::projects::metrics::Metrics;
use crate::projects::store::StoreError;

pub(super) trait Job: Send {
    fn run(&mut self, connection: &Connection) -> Result<(), Fault>;

    /// Whether its request was dropped or has waited too long.
    fn is_late(&self, patience: Duration) -> bool;

    /// Bytes that the change adds to the transaction.
    fn bytes(&self) -> usize;

    /// Responds with the result if it is durable, otherwise with an error.
    fn answer(self: Box<Self>, fate: Result<(), StoreError>);
}

pub(super) struct Change<T, F> {
    pub(super) work: F,
    pub(super) bytes: usize,
    pub(super) made: Instant,
    pub(super) done: Option<Result<T, StoreError>>,
    pub(super) reply: oneshot::Sender<Result<T, StoreError>>,
    pub(super) place: Place,
}

impl<T, F> Job for Change<T, F>
where
    T: Send,
    F: FnMut(&Connection) -> rusqlite::Result<T> + Send,
{
    fn run(&mut self, connection: &Connection) -> Result<(), Fault> {
        match (self.work)(connection) {
            Ok(done) => {
                self.done = Some(Ok(done));
                Ok(())
            }
            Err(error) => {
                let fault = Fault::from(error);
                self.done = Some(Err(fault.tells()));
                Err(fault)
            }
        }
    }

    fn is_late(&self, patience: Duration) -> bool {
        self.reply.is_closed() || self.made.elapsed() > patience
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn answer(self: Box<Self>, fate: Result<(), StoreError>) {
        let Change { done, reply, place, .. } = *self;
        // Released before the client can send its next request.
        drop(place);
        let answer = fate.and_then(|()| done.unwrap_or(Err(StoreError::TimedOut)));
        // The request may have been dropped.
        let _ = reply.send(answer);
    }
}

#[derive(Clone, Debug)]
pub(super) struct Line {
    waiting: Arc<AtomicU64>,
    most: u64,
    metrics: Arc<Metrics>,
}

impl Line {
    pub(super) fn new(most: u64, metrics: Arc<Metrics>) -> Self {
        Line { waiting: Arc::default(), most, metrics }
    }

    /// `Err` if the queue is full.
    pub(super) fn enter(&self) -> Result<Place, StoreError> {
        // Only the lane adds to the queue.
        if self.waiting.load(Relaxed) >= self.most {
            return Err(StoreError::Exhausted);
        }
        self.waiting.fetch_add(1, Relaxed);
        self.metrics.queued.inc();
        Ok(Place(self.clone()))
    }
}

/// A place in the queue, released when dropped.
#[derive(Debug)]
pub(super) struct Place(Line);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
        self.0.metrics.queued.dec();
    }
}
