//! Database errors and their consequences for requests.

use std::io;

use rusqlite::ErrorCode;

use crate::projects::store::StoreError;

/// Reason why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The program must not use the file.
    #[error("the file {0}")]
    Refused(String),
    #[error("the file is gone: {0}")]
    Lost(#[source] io::Error),
    #[error("the thread that writes it has ended")]
    WriterEnded,
    #[error("the file is damaged: {0}")]
    Damaged(String),
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

impl Fault {
    pub(super) fn is_lock(&self) -> bool {
        self.tells() == StoreError::Locked
    }

    /// Whether the file is corrupt, even if other parts can be read.
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

    /// Whether the error makes the connection unusable. Disk errors do not: SQLite has rolled back,
    /// and opening another connection may need disk space.
    pub(super) fn ends_connection(&self) -> bool {
        let Fault::Sqlite(error) = self else { return true };
        !matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure))
            && self.tells() == StoreError::Unavailable
    }

    pub(super) fn tells(&self) -> StoreError {
        let Fault::Sqlite(error) = self else { return StoreError::Unavailable };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked,
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
