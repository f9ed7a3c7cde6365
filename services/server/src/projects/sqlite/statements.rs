//! Statements for the table of projects.
//!
//! Each change is one statement. If it fails, SQLite rolls back only that change, and the
//! transaction continues (sqlite.org/lang_conflict.html, ABORT).

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Result, Row, ToSql, params};
use uuid::Uuid;

use crate::projects::store::{Changed, Project, Version};

pub(super) fn get(connection: &Connection, id: Uuid) -> Result<Option<Project>> {
    connection
        .prepare_cached(
            "SELECT id, version, created, updated, document FROM projects WHERE id = ?1",
        )?
        .query_row(params![id.as_bytes()], project)
        .optional()
}

pub(super) fn list(
    connection: &Connection,
    after: Option<Uuid>,
    limit: u32,
) -> Result<Vec<Project>> {
    // No project has the nil ID, which precedes all other IDs.
    let after = after.unwrap_or_default();
    connection
        .prepare_cached(
            "SELECT id, version, created, updated, document FROM projects WHERE id > ?1 \
             ORDER BY id LIMIT ?2",
        )?
        .query_map(params![after.as_bytes(), limit], project)?
        .collect()
}

pub(super) fn create(connection: &Connection, id: Uuid, document: &Bytes) -> Result<Project> {
    let now = SystemTime::now();
    connection
        .prepare_cached("INSERT INTO projects VALUES (?1, 1, ?2, ?2, ?3)")?
        .execute(params![id.as_bytes(), micros(now), Text(document)])?;
    let document = document.clone();
    Ok(Project { id, version: Version(1), created: now, updated: now, document })
}

pub(super) fn replace(
    connection: &Connection,
    id: Uuid,
    document: &Bytes,
    expected: Option<Version>,
) -> Result<Changed<Project>> {
    let now = SystemTime::now();
    let replaced = connection
        .prepare_cached(
            "UPDATE projects SET version = version + 1, updated = ?2, document = ?3 \
             WHERE id = ?1 AND version = coalesce(?4, version) RETURNING version, created",
        )?
        .query_row(
            params![id.as_bytes(), micros(now), Text(document), expected.map(|v| v.0)],
            |row| {
                Ok(Project {
                    id,
                    version: Version(row.get(0)?),
                    created: time(row.get(1)?),
                    updated: now,
                    document: document.clone(),
                })
            },
        )
        .optional()?;
    replaced.map_or_else(|| unchanged(connection, id), |project| Ok(Changed::Done(project)))
}

pub(super) fn delete(
    connection: &Connection,
    id: Uuid,
    expected: Option<Version>,
) -> Result<Changed<()>> {
    let deleted = connection
        .prepare_cached("DELETE FROM projects WHERE id = ?1 AND version = coalesce(?2, version)")?
        .execute(params![id.as_bytes(), expected.map(|v| v.0)])?;
    if deleted == 1 { Ok(Changed::Done(())) } else { unchanged(connection, id) }
}

fn unchanged<T>(connection: &Connection, id: Uuid) -> Result<Changed<T>> {
    let version = connection
        .prepare_cached("SELECT version FROM projects WHERE id = ?1")?
        .query_row(params![id.as_bytes()], |row| row.get(0))
        .optional()?;
    Ok(version.map_or(Changed::Missing, |version| Changed::Conflict(Version(version))))
}

fn project(row: &Row<'_>) -> Result<Project> {
    Ok(Project {
        id: Uuid::from_bytes(row.get(0)?),
        version: Version(row.get(1)?),
        created: time(row.get(2)?),
        updated: time(row.get(3)?),
        document: Bytes::copy_from_slice(row.get_ref(4)?.as_bytes()?),
    })
}

/// Documents were validated as UTF-8 when they were accepted.
struct Text<'a>(&'a [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

fn micros(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

fn time(micros: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros.unsigned_abs())
}
