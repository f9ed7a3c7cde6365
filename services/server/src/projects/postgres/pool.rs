//! A lane's sessions, each used by one request at a time.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corelane::Dependency;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::session::{Order, Session};
use super::settings::Settings;
use crate::projects::metrics::Metrics;
use crate::projects::store::StoreError;

/// Additional wait for a statement after the server's own time limit for it.
const GRACE: Duration = Duration::from_secs(1);

/// A lane's sessions and the requests waiting for a session, all on the lane's thread.
#[derive(Debug)]
pub(super) struct Pool {
    /// The most recently used session is at the end.
    idle: RefCell<Vec<Rc<Session>>>,
    open: RefCell<Vec<Rc<Session>>>,
    waiting: RefCell<VecDeque<oneshot::Sender<Lent>>>,
    queue: usize,
    wait: Duration,
    pub(super) longest_statement: Duration,
    /// Whether no session is open and the database is known to be down, so that requests do not
    /// wait.
    down: Cell<bool>,
    discards: Cell<u64>,
    dependency: Dependency,
    metrics: Arc<Metrics>,
    /// Notified when a session is closed.
    pub(super) ended: Notify,
    /// Whether a session closed soon after it was opened.
    pub(super) ended_soon: Cell<bool>,
}

impl Pool {
    pub(super) fn new(settings: &Settings, dependency: Dependency, metrics: Arc<Metrics>) -> Self {
        dependency.pending("not connected yet");
        Pool {
            idle: RefCell::default(),
            open: RefCell::default(),
            waiting: RefCell::default(),
            queue: settings.queue,
            wait: settings.wait,
            longest_statement: settings.statement_timeout + GRACE,
            down: Cell::new(false),
            discards: Cell::new(0),
            dependency,
            metrics,
            ended: Notify::new(),
            ended_soon: Cell::new(false),
        }
    }

    pub(super) async fn take(self: &Rc<Self>) -> Result<Lent, StoreError> {
        let began = Instant::now();
        let taken = self.take_or_wait().await;
        self.metrics.connection_wait.observe(began.elapsed().as_secs_f64());
        taken
    }

    async fn take_or_wait(self: &Rc<Self>) -> Result<Lent, StoreError> {
        while let Some(session) = self.pop_idle() {
            if !session.ended.get() {
                return Ok(self.lend(session));
            }
        }
        if self.down.get() {
            return Err(StoreError::Unavailable);
        }
        let receiver = self.join_queue()?;
        let _queued = Counted::new(&self.metrics.queued);
        match timeout(self.wait, receiver).await {
            Ok(Ok(lent)) => Ok(lent),
            // The waiting requests have been rejected.
            Ok(Err(_)) => Err(StoreError::Unavailable),
            Err(_) => Err(StoreError::Exhausted),
        }
    }

    fn pop_idle(&self) -> Option<Rc<Session>> {
        self.idle.borrow_mut().pop()
    }

    fn first_waiting(&self) -> Option<oneshot::Sender<Lent>> {
        self.waiting.borrow_mut().pop_front()
    }

    fn join_queue(&self) -> Result<oneshot::Receiver<Lent>, StoreError> {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= self.queue {
            // Some of the waiting requests may have been dropped.
            waiting.retain(|request| !request.is_closed());
        }
        if waiting.len() >= self.queue {
            return Err(StoreError::Exhausted);
        }
        let (sender, receiver) = oneshot::channel();
        waiting.push_back(sender);
        Ok(receiver)
    }

    fn lend(self: &Rc<Self>, session: Rc<Session>) -> Lent {
        Lent { pool: Rc::clone(self), session: Some(session), busy: Cell::new(false) }
    }

    pub(super) fn open(&self) -> usize {
        self.open.borrow().len()
    }

    pub(super) fn add(self: &Rc<Self>, session: Rc<Session>) {
        self.open.borrow_mut().push(Rc::clone(&session));
        self.metrics.open.inc();
        self.down.set(false);
        self.dependency.up();
        self.give(session);
    }

    pub(super) fn give(self: &Rc<Self>, session: Rc<Session>) {
        if session.ended.get() {
            return;
        }
        let mut lent = self.lend(session);
        while let Some(request) = self.first_waiting() {
            match request.send(lent) {
                Ok(()) => return,
                // The request was dropped.
                Err(back) => lent = back,
            }
        }
        self.idle.borrow_mut().extend(lent.session.take());
    }

    pub(super) fn remove(&self, session: &Rc<Session>, reason: String) {
        session.ended.set(true);
        let other = |other: &Rc<Session>| !Rc::ptr_eq(other, session);
        self.idle.borrow_mut().retain(other);
        self.open.borrow_mut().retain(other);
        self.metrics.open.dec();
        if self.open() == 0 {
            self.fail(reason);
        } else {
            tracing::info!(reason, "a connection to the database ended");
        }
        self.ended.notify_one();
    }

    /// Rejects waiting requests: no session is open and none could be opened.
    pub(super) fn fail(&self, reason: String) {
        self.down.set(true);
        self.dependency.down(reason);
        self.waiting.take();
    }

    /// Number of times that all sessions were discarded. A session requested before that may be
    /// connected to the old server.
    pub(super) fn discards(&self) -> u64 {
        self.discards.get()
    }

    pub(super) fn discard_all(&self, reason: &'static str) {
        self.discards.set(self.discards.get() + 1);
        for session in self.open.borrow().iter() {
            session.tell(Order::Discard(reason));
        }
    }
}

#[derive(Debug)]
pub(super) struct Lent {
    pool: Rc<Pool>,
    session: Option<Rc<Session>>,
    busy: Cell<bool>,
}

impl Lent {
    /// Runs statements. If the request is dropped in the meantime, the session is not reused until
    /// its statements end.
    pub(super) async fn during<T>(&self, statement: impl Future<Output = T>) -> T {
        let _in_use = Counted::new(&self.pool.metrics.in_use);
        self.busy.set(true);
        let done = statement.await;
        self.busy.set(false);
        done
    }
}

impl Deref for Lent {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.as_ref().expect("a session is taken out when it is given back")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        match self.session.take() {
            Some(session) if self.busy.get() => session.tell(Order::Settle),
            Some(session) => self.pool.give(session),
            None => {}
        }
    }
}

struct Counted<'a>(&'a Gauge);

impl<'a> Counted<'a> {
    fn new(gauge: &'a Gauge) -> Self {
        gauge.inc();
        Counted(gauge)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}
