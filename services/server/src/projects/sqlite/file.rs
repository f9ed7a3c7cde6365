//! The database file: opened, recognised, brought to this program's schema.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::fault::Fault;

/// Each brings the schema from the version before it to its own, counted from 1. Replicas of two
/// versions may share a file while they are rolled out: a migration must leave what the program
/// before it uses.
const MIGRATIONS: [&str; 1] = [include_str!("migrations/1.sql")];

/// Marks the file as one of this program ("CRLN"), in its header.
const APPLICATION_ID: i32 = 0x4352_4c4e;

/// How soon a lock is tried again. SQLite's own busy handler waits ever longer, which makes the
/// longest waits of several processes longer still.
const RETRY: Duration = Duration::from_millis(1);

/// Where the database is and how long a lock is waited for.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) patience: Duration,
}

/// A connection and the file that it has open.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) connection: Connection,
    identity: (u64, u64),
}

impl Opened {
    /// Copies the log into the database and empties it; whether no reader was in the way. Writers
    /// are blocked meanwhile, so its time limit is short.
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
    /// Opens the file for the writer, at the present schema. With `create` it may be created.
    pub(super) fn open_writer(&self, create: bool) -> Result<Opened, Fault> {
        let mut opened = self.open(create)?;
        let connection = &mut opened.connection;
        Header::read_at_once(connection)?.check(create)?;
        self.enter_wal(connection)?;
        // In WAL mode only FULL makes a transaction durable before its COMMIT returns
        // (sqlite.org/pragma.html#pragma_synchronous, sqlite.org/wal.html#performance_considerations).
        connection.pragma_update(None, "synchronous", "full")?;
        // The file of the log is cut back to this after a burst, when it is restarted.
        connection.pragma_update(None, "journal_size_limit", super::LOG_LIMIT as i64)?;
        migrate(connection, create)?;
        Ok(opened)
    }

    /// Opens the file for reading.
    pub(super) fn open_reader(&self) -> Result<Opened, Fault> {
        let mut opened = self.open(false)?;
        Header::read_at_once(&mut opened.connection)?.check(false)?;
        opened.connection.pragma_update(None, "query_only", true)?;
        Ok(opened)
    }

    /// Reads the whole file, and finds whether every page of it can be read.
    pub(super) fn check_sound(&self) -> Result<(), Fault> {
        // A new connection has none of the pages in its cache. `quick_check` would not see an index
        // that names rows which are gone, and a read of one fails.
        let found: String =
            self.open_reader()?
                .connection
                .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        match found.lines().next_back() {
            Some("ok") => Ok(()),
            // The line before names the database, which is always the main one.
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

    /// Readers do not stop the writer in this mode (sqlite.org/wal.html).
    fn enter_wal(&self, connection: &Connection) -> Result<(), Fault> {
        let began = Instant::now();
        loop {
            // When several processes do this at once, some get the error of the lock without a wait.
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

    /// Whether the path still names the file that is open: what is written to a file that was
    /// removed or replaced is lost with its last descriptor.
    pub(super) fn check_kept(&self, opened: &Opened) -> Result<(), Fault> {
        match self.identity() {
            Ok(identity) if identity == opened.identity => Ok(()),
            Ok(_) => Err(Fault::Lost(io::Error::other("another file took its place"))),
            Err(error) => Err(Fault::Lost(error)),
        }
    }

    /// Bytes of the write-ahead log.
    pub(super) fn log_length(&self) -> u64 {
        let mut path = self.path.clone().into_os_string();
        path.push("-wal");
        std::fs::metadata(path).map_or(0, |log| log.len())
    }
}

/// A busy handler that fails after `patience`.
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

/// What the file says of itself.
struct Header {
    application: i32,
    version: i32,
    is_empty: bool,
}

impl Header {
    /// All of it as it was at one moment: another process may be making the file right now.
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

    /// Refuses what is not this program's, or of a newer version of it.
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

/// Brings the schema up to date: in one transaction that holds the write lock from its beginning,
/// so that of several processes one does it and the others wait.
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

/// Writes the header of the database, which changes nothing: a file that takes it takes writes.
pub(super) fn touch(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i32)
}
