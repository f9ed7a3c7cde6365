//! Why the database could not be used, and the error of the request.

use std::io;

use rusqlite::ErrorCode;

use crate::projects::store::StoreError;

/// Why the database could not be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The file is not one that this program may use.
    #[error("the file {0}")]
    Refused(String),
    /// The file is not there any more.
    #[error("the file is gone: {0}")]
    Lost(#[source] io::Error),
    /// The writer has panicked; the log says why.
    #[error("the thread that writes it has ended")]
    WriterEnded,
    /// What a check of the whole file found.
    #[error("the file is damaged: {0}")]
    Damaged(String),
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

impl Fault {
    /// Whether a lock was not given in time.
    pub(super) fn is_lock(&self) -> bool {
        self.tells() == StoreError::TimedOut
    }

    /// Whether the file holds what cannot be right. What else can still be read proves nothing.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Fault::Damaged(_) => true,
            Fault::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            ),
            Fault::Refused(_) | Fault::Lost(_) | Fault::WriterEnded => false,
        }
    }

    /// Whether a connection with this error is no longer usable. After an error of the disk it is:
    /// SQLite has undone the transaction, and to open another may take space that is not there.
    pub(super) fn ends_connection(&self) -> bool {
        let Fault::Sqlite(error) = self else { return true };
        !matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure))
            && self.tells() == StoreError::Unavailable
    }

    /// The error of the request.
    pub(super) fn tells(&self) -> StoreError {
        let Fault::Sqlite(error) = self else { return StoreError::Unavailable };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::TimedOut,
            Some(
                ErrorCode::CannotOpen
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::DiskFull
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::NoLargeFileSupport
                | ErrorCode::NotADatabase
                | ErrorCode::OutOfMemory
                | ErrorCode::PermissionDenied
                | ErrorCode::ReadOnly
                | ErrorCode::SystemIoFailure,
            ) => StoreError::Unavailable,
            _ => StoreError::Failed,
        }
    }
}
