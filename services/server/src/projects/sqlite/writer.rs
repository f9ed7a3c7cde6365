//! The writer thread of a process. SQLite allows one writer at a time, so waiting changes are
//! committed together with one fsync (group commit).

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rusqlite::{Transaction, TransactionBehavior};

use super::LOG_LIMIT;
use super::fault::Fault;
use super::file::{File, Opened, touch};
use super::health::{Access, Health};
use super::queue::Job;
use crate::projects::metrics::Metrics;
use crate::projects::store::StoreError;

/// Maximum changes and bytes per transaction. The first change of a group waits for the last one,
/// and larger groups would hardly reduce the cost of the fsync per change. SQLite keeps uncommitted
/// data in a 2 MB page cache and writes the rest to the log twice.
const GROUP: usize = 256;
const GROUP_BYTES: usize = 1 << 20;

/// Interval at which an idle writer checks that the file exists, retries an unusable file, and may
/// truncate a long log.
const LOOK: Duration = Duration::from_secs(1);

/// Minimum time between checks of a damaged file, as a fixed time and as a multiple of a check's
/// duration. A check reads the entire file, and changes wait for it.
const CHECK: Duration = Duration::from_secs(10);
const CHECK_SHARE: u32 = 10;

pub(super) struct Writer {
    pub(super) file: File,
    pub(super) health: Arc<Health>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) opened: Option<Opened>,
    /// Whether the file was open earlier. If it has disappeared since, an empty file must not
    /// replace it.
    pub(super) existed: bool,
    /// Time from which a long log may be truncated again, and whether a reader prevented the last
    /// attempt.
    pub(super) next_cut: Instant,
    pub(super) log_is_held: bool,
    pub(super) next_check: Instant,
    pub(super) locked: bool,
}

impl Writer {
    /// Runs until all senders are dropped, and then closes the file.
    pub(super) fn run(mut self, jobs: &Receiver<Box<dyn Job>>) {
        loop {
            match jobs.recv_timeout(LOOK) {
                Ok(job) => self.commit(job, jobs),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.check_damage();
        }
    }

    /// Commits a change and all changes waiting behind it in one transaction, and responds to them.
    fn commit(&mut self, first: Box<dyn Job>, jobs: &Receiver<Box<dyn Job>>) {
        if first.is_late(self.file.patience) {
            return first.answer(Err(self.late()));
        }
        let mut group = vec![first];
        let began = Instant::now();
        let outcome = self.transact(&mut group, jobs);
        self.locked = outcome.as_ref().is_err_and(Fault::is_lock);
        match outcome {
            Ok(None) => self.health.works(Access::Write),
            Ok(Some(fault)) => {
                self.health.failed(Access::Write, &fault);
            }
            Err(fault) => {
                let tells = self.health.failed(Access::Write, &fault);
                self.metrics.commit(false, group.len(), began.elapsed());
                group.into_iter().for_each(|job| job.answer(Err(tells)));
                let is_stuck = |opened: &mut Opened| !opened.connection.is_autocommit();
                if fault.ends_connection() || self.opened.as_mut().is_some_and(is_stuck) {
                    self.opened = None;
                }
                return;
            }
        }
        self.metrics.commit(true, group.len(), began.elapsed());
        group.into_iter().for_each(|job| job.answer(Ok(())));
        self.cut_log();
    }

    /// Reason why a change waited too long: changes are queued while the writer waits for the lock.
    fn late(&self) -> StoreError {
        if self.locked { StoreError::Locked } else { StoreError::TimedOut }
    }

    /// Commits a group of changes. A single change that fails is not an error here, but the last
    /// such fault is reported.
    fn transact(
        &mut self,
        group: &mut Vec<Box<dyn Job>>,
        jobs: &Receiver<Box<dyn Job>>,
    ) -> Result<Option<Fault>, Fault> {
        let (patience, late) = (self.file.patience, self.late());
        let opened = self.open()?;
        // Waits for writers in other processes. Changes that arrive meanwhile join the group.
        let transaction = Transaction::new(&mut opened.connection, TransactionBehavior::Immediate)?;
        let (mut ran, mut bytes, mut failed) = (0, 0, None);
        while ran < group.len() {
            let job = &mut group[ran];
            if let Err(fault) = job.run(&transaction) {
                // Some errors, such as a full disk, may end the transaction
                // (sqlite.org/lang_transaction.html#response_to_errors_within_a_transaction).
                if transaction.is_autocommit() {
                    return Err(fault);
                }
                failed = Some(fault);
            }
            bytes += job.bytes();
            ran += 1;
            while ran == group.len() && ran < GROUP && bytes < GROUP_BYTES {
                match jobs.try_recv() {
                    Ok(job) if job.is_late(patience) => job.answer(Err(late)),
                    Ok(job) => group.push(job),
                    Err(_) => break,
                }
            }
        }
        transaction.commit()?;
        self.check_kept()?;
        Ok(failed)
    }

    fn open(&mut self) -> Result<&mut Opened, Fault> {
        let opened = match self.opened.take() {
            Some(opened) => opened,
            None => self.file.open_writer(!self.existed)?,
        };
        self.existed = true;
        Ok(self.opened.insert(opened))
    }

    /// An acknowledged change must be in the file that a restart opens.
    fn check_kept(&self) -> Result<(), Fault> {
        self.opened.as_ref().map_or(Ok(()), |opened| self.file.check_kept(opened))
    }

    fn look(&mut self) {
        if let Err(fault) = self.check_kept() {
            self.health.failed(Access::Write, &fault);
            self.opened = None;
        }
        if !self.health.is_down() {
            return;
        }
        match self.try_write().and_then(|()| self.file.open_reader()) {
            Ok(_) => {
                self.health.works(Access::Write);
                self.health.works(Access::Read);
            }
            Err(fault) => {
                // The file is also closed after a disk error, because a volume cannot be remounted
                // while files are open.
                if self.health.failed(Access::Write, &fault) == StoreError::Unavailable {
                    self.opened = None;
                }
            }
        }
    }

    /// Checks the entire file, because only that shows that it is no longer damaged.
    fn check_damage(&mut self) {
        if !self.health.is_damaged() || self.next_check > Instant::now() {
            return;
        }
        let began = Instant::now();
        match self.file.check_sound() {
            Ok(()) => self.health.sound(),
            Err(fault) => {
                self.health.failed(Access::Read, &fault);
            }
        }
        self.next_check = Instant::now() + CHECK.max(CHECK_SHARE * began.elapsed());
    }

    fn try_write(&mut self) -> Result<(), Fault> {
        let opened = self.open()?;
        let transaction = Transaction::new(&mut opened.connection, TransactionBehavior::Immediate)?;
        touch(&transaction)?;
        transaction.commit()?;
        self.check_kept()
    }

    /// Truncates a long log. SQLite copies the log into the database every 1,000 pages, at the end
    /// of a COMMIT. It restarts the log only if no connection reads from it
    /// (sqlite.org/wal.html#avoiding_excessively_large_wal_files). Otherwise, this call waits for
    /// such a moment.
    fn cut_log(&mut self) {
        let Some(opened) = &mut self.opened else { return };
        if self.next_cut > Instant::now() || self.file.log_length() <= LOG_LIMIT {
            return;
        }
        self.next_cut = Instant::now() + LOOK;
        let held = match opened.cut_log(&self.file) {
            Ok(cut) => !cut,
            Err(error) => {
                tracing::warn!(%error, "the log of the database could not be truncated");
                true
            }
        };
        if held && !self.log_is_held {
            tracing::warn!("the log of the database grows: a read takes a long time");
        }
        self.log_is_held = held;
    }
}
