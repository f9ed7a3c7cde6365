//! The stored form of projects and the results of operations, for any database.

use std::time::SystemTime;

use bytes::Bytes;
use uuid::Uuid;

/// A project's version, counted from 1. Each change adds one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(pub(crate) i64);

impl Version {
    /// The version's strong entity tag (RFC 9110 section 8.8.3).
    pub(crate) fn tag(self) -> String {
        format!("\"{}\"", self.0)
    }

    pub(crate) fn from_tag(opaque: &[u8]) -> Option<Self> {
        let version: i64 = str::from_utf8(opaque).ok()?.parse().ok()?;
        (version > 0 && version.to_string().as_bytes() == opaque).then_some(Version(version))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Project {
    pub(crate) id: Uuid,
    pub(crate) version: Version,
    pub(crate) created: SystemTime,
    pub(crate) updated: SystemTime,
    /// The text of a JSON object with at least one member, without surrounding whitespace.
    pub(crate) document: Bytes,
}

/// Reason why a database operation failed. The details are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreError {
    Unavailable,
    Exhausted,
    TimedOut,
    Locked,
    Failed,
}

impl StoreError {
    pub(crate) fn name(self) -> &'static str {
        match self {
            StoreError::Unavailable => "unavailable",
            StoreError::Exhausted => "exhausted",
            StoreError::TimedOut | StoreError::Locked => "timed_out",
            StoreError::Failed => "failed",
        }
    }
}

#[derive(Debug)]
pub(crate) enum Changed<T> {
    Done(T),
    Missing,
    /// The project has this version instead of the expected version.
    Conflict(Version),
}

impl<T> Changed<T> {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Changed::Done(_) => "done",
            Changed::Missing => "missing",
            Changed::Conflict(_) => "conflict",
        }
    }
}
