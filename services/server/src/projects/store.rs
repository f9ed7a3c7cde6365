//! The stored form of projects, and the results of operations on them, whatever the database.

use std::time::SystemTime;

use bytes::Bytes;
use uuid::Uuid;

/// Version of a project, counted from 1. Each change adds one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(pub(crate) i64);

impl Version {
    /// The strong entity tag of this version (RFC 9110 section 8.8.3).
    pub(crate) fn tag(self) -> String {
        format!("\"{}\"", self.0)
    }

    /// The version with this tag.
    pub(crate) fn from_tag(opaque: &[u8]) -> Option<Self> {
        let version: i64 = str::from_utf8(opaque).ok()?.parse().ok()?;
        (version > 0 && version.to_string().as_bytes() == opaque).then_some(Version(version))
    }
}

/// A project as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    pub(crate) id: Uuid,
    pub(crate) version: Version,
    pub(crate) created: SystemTime,
    pub(crate) updated: SystemTime,
    /// The text of a JSON object with at least one member, without whitespace around it.
    pub(crate) document: Bytes,
}

/// The reason why a database operation failed. The details are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreError {
    /// The database is down.
    Unavailable,
    /// Too many operations wait for the database.
    Exhausted,
    /// The operation took too long.
    TimedOut,
    /// Another process kept the lock for too long.
    Locked,
    /// An unexpected error occurred.
    Failed,
}

impl StoreError {
    /// The label in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            StoreError::Unavailable => "unavailable",
            StoreError::Exhausted => "exhausted",
            StoreError::TimedOut | StoreError::Locked => "timed_out",
            StoreError::Failed => "failed",
        }
    }
}

/// The result of a change.
#[derive(Debug)]
pub(crate) enum Changed<T> {
    Done(T),
    /// There is no such project.
    Missing,
    /// The project has this version, not the expected one.
    Conflict(Version),
}

impl<T> Changed<T> {
    /// The name of the result in metrics.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Changed::Done(_) => "done",
            Changed::Missing => "missing",
            Changed::Conflict(_) => "conflict",
        }
    }
}
