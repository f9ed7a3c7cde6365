//! Opens, identifies and migrates the database file.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::fault::Fault;

/// Migrations, each from the previous version of the schema, counted from 1. Replicas of two
/// versions may share a file during a rollout, so a migration must keep everything that the
/// previous program uses.
const MIGRATIONS: [&str; 1] = [include_str!("migrations/1.sql")];

/// Marks the file as belonging to this program ("CRLN") in its header.
const APPLICATION_ID: i32 = 0x4352_4c4e;

/// Interval between lock attempts. SQLite's own busy handler lengthens its pauses, so the process
/// that has waited longest would wait even longer.
const RETRY: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) patience: Duration,
}

#[derive(Debug)]
pub(super) struct Opened {
    pub(super) connection: Connection,
    identity: (u64, u64),
}

impl Opened {
    /// Copies the log into the database and empties it. Returns false if a reader prevented this.
    /// Blocks writers, so its time limit is short.
    pub(super) fn cut_log(&mut self, file: &File) -> rusqlite::Result<bool> {
        self.connection.busy_handler(Some(wait_at_most(20 * RETRY)))?;
        let busy = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        self.connection.busy_handler(Some(wait_at_most(file.patience)))?;
        busy.map(|busy| !busy)
    }
}

impl File {
    /// Opens the file for the writer with the current schema. With `create`, a missing file is
    /// created.
    pub(super) fn open_writer(&self, create: bool) -> Result<Opened, Fault> {
        let mut opened = self.open(create)?;
        let connection = &mut opened.connection;
        Header::read_at_once(connection)?.check(create)?;
        self.enter_wal(connection)?;
        // In WAL mode, only FULL makes a transaction durable before COMMIT returns
        // (sqlite.org/pragma.html#pragma_synchronous,
        // sqlite.org/wal.html#performance_considerations).
        connection.pragma_update(None, "synchronous", "full")?;
        // Size of the truncated log file after a burst.
        connection.pragma_update(None, "journal_size_limit", super::LOG_LIMIT as i64)?;
        migrate(connection, create)?;
        Ok(opened)
    }

    pub(super) fn open_reader(&self) -> Result<Opened, Fault> {
        let mut opened = self.open(false)?;
        Header::read_at_once(&mut opened.connection)?.check(false)?;
        opened.connection.pragma_update(None, "query_only", true)?;
        Ok(opened)
    }

    pub(super) fn check_sound(&self) -> Result<(), Fault> {
        // A new connection has an empty cache. `quick_check` misses index entries without rows,
        // which would make a read fail.
        let found: String =
            self.open_reader()?
                .connection
                .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        match found.lines().next_back() {
            Some("ok") => Ok(()),
            // The previous line names the database, which is always the main one.
            finding => Err(Fault::Damaged(finding.unwrap_or_default().to_owned())),
        }
    }

    fn open(&self, create: bool) -> Result<Opened, Fault> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
        let mut connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_handler(Some(wait_at_most(self.patience)))?;
        let identity = self.identity().map_err(Fault::Lost)?;
        Ok(Opened { connection, identity })
    }

    /// In WAL mode, readers do not block the writer (sqlite.org/wal.html).
    fn enter_wal(&self, connection: &Connection) -> Result<(), Fault> {
        let began = Instant::now();
        loop {
            // If several processes do this at the same time, some fail to get the lock without
            // waiting.
            match connection
                .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))
            {
                Ok(mode) if mode == "wal" => return Ok(()),
                Ok(mode) => return Err(Fault::Refused(format!("stays in journal mode {mode}"))),
                Err(error) => {
                    let fault = Fault::from(error);
                    if !fault.is_lock() || began.elapsed() > self.patience {
                        return Err(fault);
                    }
                    std::thread::sleep(RETRY);
                }
            }
        }
    }

    fn identity(&self) -> io::Result<(u64, u64)> {
        self.path.metadata().map(|file| (file.dev(), file.ino()))
    }

    /// Checks that the path still names the open file. Data written to a removed or replaced file
    /// is lost with its last descriptor.
    pub(super) fn check_kept(&self, opened: &Opened) -> Result<(), Fault> {
        match self.identity() {
            Ok(identity) if identity == opened.identity => Ok(()),
            Ok(_) => Err(Fault::Lost(io::Error::other("another file took its place"))),
            Err(error) => Err(Fault::Lost(error)),
        }
    }

    pub(super) fn log_length(&self) -> u64 {
        let mut path = self.path.clone().into_os_string();
        path.push("-wal");
        std::fs::metadata(path).map_or(0, |log| log.len())
    }
}

/// A busy handler that stops waiting after `patience`.
fn wait_at_most(patience: Duration) -> impl FnMut(i32) -> bool + Send + 'static {
    let mut began = Instant::now();
    move |tries| {
        if tries == 0 {
            began = Instant::now();
        }
        let waits = began.elapsed() < patience;
        if waits {
            std::thread::sleep(RETRY);
        }
        waits
    }
}

struct Header {
    application: i32,
    version: i32,
    is_empty: bool,
}

impl Header {
    /// Reads the header in one transaction, because another process may be creating the file.
    fn read_at_once(connection: &mut Connection) -> rusqlite::Result<Self> {
        let moment = Transaction::new(connection, TransactionBehavior::Deferred)?;
        Header::read(&moment)
    }

    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get(0));
        Ok(Header {
            application: number("application_id")?,
            version: number("user_version")?,
            is_empty: number("schema_version")? == 0,
        })
    }

    /// Rejects files of other programs, or of a newer version of this program.
    fn check(&self, may_be_new: bool) -> Result<(), Fault> {
        let known = MIGRATIONS.len() as i32;
        if self.application == 0 && self.version == 0 && self.is_empty {
            return match may_be_new {
                true => Ok(()),
                false => Err(Fault::Refused("is empty".to_owned())),
            };
        }
        if self.application != APPLICATION_ID {
            return Err(Fault::Refused("belongs to another program".to_owned()));
        }
        if self.version > known {
            return Err(Fault::Refused(format!(
                "has schema version {}, and this program knows none above {known}",
                self.version
            )));
        }
        Ok(())
    }
}

/// Migrates the schema in one transaction that takes the write lock first. If several processes
/// open the file, one of them migrates it while the others wait.
fn migrate(connection: &mut Connection, create: bool) -> Result<(), Fault> {
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
    let header = Header::read(&transaction)?;
    header.check(create)?;
    let done = usize::try_from(header.version).unwrap_or(0);
    if done == MIGRATIONS.len() {
        return Ok(());
    }
    for migration in &MIGRATIONS[done..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    touch(&transaction)?;
    Ok(transaction.commit()?)
}

/// Rewrites the header unchanged, which shows whether writing works.
pub(super) fn touch(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i32)
}
