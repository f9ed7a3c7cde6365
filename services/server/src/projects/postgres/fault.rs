//! Consequences of a database error for the client and for the connection.

use std::error::Error as _;

use tokio_postgres::Error;

use crate::projects::store::StoreError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Keep,
    Discard,
    /// Close all connections, because their server is no longer the right one.
    DiscardAll,
}

pub(super) fn judge(error: &Error) -> (StoreError, Fate) {
    let Some(code) = error.code() else {
        // Without a response from the server, the connection or its protocol has failed. Errors
        // when reading a row are bugs in this program and do not close the connection.
        let broken =
            error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>());
        return if broken {
            (StoreError::Unavailable, Fate::Discard)
        } else {
            (StoreError::Failed, Fate::Discard)
        };
    };
    match code.code() {
        // Caused by statement_timeout, an operator's pg_cancel_backend, or lock_timeout.
        "57014" | "55P03" => (StoreError::TimedOut, Fate::Keep),
        // The server is read-only: a standby that was the primary when this connection was opened.
        "25006" => (StoreError::Unavailable, Fate::DiscardAll),
        code => match &code[..2] {
            // The server is shutting down or starting, or it is ending this session.
            "57" | "08" => (StoreError::Unavailable, Fate::Discard),
            // The server is out of disk, memory or connections, or there was a disk error or a
            // conflict with another transaction. No change was made, so a retry may succeed.
            "53" | "58" | "40" => (StoreError::Unavailable, Fate::Keep),
            // A connection pooler assigned a session without the statement.
            "26" => (StoreError::Failed, Fate::Discard),
            _ => (StoreError::Failed, Fate::Keep),
        },
    }
}

/// Omits the server's details, which may contain data.
pub(super) fn describe(error: &Error) -> String {
    if let Some(answer) = error.as_db_error() {
        return format!("{} ({})", answer.message(), answer.code().code());
    }
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
