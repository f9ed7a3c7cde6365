//! What an error of the database means: for the client, and for the connection.

use std::error::Error as _;

use tokio_postgres::Error;

use crate::projects::store::StoreError;

/// What becomes of the connection that an error came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Keep,
    /// It is closed.
    Discard,
    /// All are: the server that they lead to is not the one to use any more.
    DiscardAll,
}

/// Judges an error (PostgreSQL, appendix A, "Error Codes").
pub(super) fn judge(error: &Error) -> (StoreError, Fate) {
    let Some(code) = error.code() else {
        // Not an answer of the server's: the connection broke, or its protocol did. Errors in
        // reading a row do not break it, but are no less our fault for it.
        let broken =
            error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>());
        return if broken {
            (StoreError::Unavailable, Fate::Discard)
        } else {
            (StoreError::Failed, Fate::Discard)
        };
    };
    match code.code() {
        // statement_timeout, or an operator's pg_cancel_backend; lock_timeout.
        "57014" | "55P03" => (StoreError::TimedOut, Fate::Keep),
        // Read-only: a standby, which was the primary when we connected.
        "25006" => (StoreError::Unavailable, Fate::DiscardAll),
        code => match &code[..2] {
            // The server is shutting down, starting, or ends this session.
            "57" | "08" => (StoreError::Unavailable, Fate::Discard),
            // Out of disk, memory or connections; its own disk fails; a conflict with another
            // transaction. Nothing was changed, and a later try may do.
            "53" | "58" | "40" => (StoreError::Unavailable, Fate::Keep),
            // A statement that this session does not know any more: a pooler is in between.
            "26" => (StoreError::Failed, Fate::Discard),
            _ => (StoreError::Failed, Fate::Keep),
        },
    }
}

/// The message of an error for operators. The server's details may hold data and are left out.
pub(super) fn describe(error: &Error) -> String {
    if let Some(answer) = error.as_db_error() {
        return format!("{} ({})", answer.message(), answer.code().code());
    }
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
