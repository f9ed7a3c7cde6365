//! A change for the writer.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::fault::Fault;
use super::line::Place;
use crate::projects::store::StoreError;

/// A queued change with any type of result.
pub(super) trait Job: Send {
    /// Makes the change within the open transaction.
    fn run(&mut self, connection: &Connection) -> Result<(), Fault>;

    /// Whether its request was dropped or has waited too long.
    fn is_late(&self, patience: Duration) -> bool;

    /// Bytes that it adds to the transaction.
    fn bytes(&self) -> usize;

    /// Replies: with the result if it is durable, otherwise with an error.
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
