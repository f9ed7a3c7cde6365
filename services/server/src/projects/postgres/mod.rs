//! Projects in PostgreSQL: one connection pool per lane, on the lane's event loop.
//!
//! Common pools (deadpool, bb8, sqlx) connect while a request waits. Here, a separate task opens
//! connections, so that an unavailable database does not delay requests. Lanes share no state. A
//! connection runs one statement at a time, because pipelined statements wait for each other, for
//! locks and for the disk.

mod fault;
mod migrations;
mod pool;
mod session;
mod settings;
mod supervisor;
mod text;
mod tls;

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use corelane::Dependency;
use tokio::task::spawn_local;
use tokio::time::timeout;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use self::fault::{Fate, describe, judge};
use self::pool::Pool;
use self::session::{Order, Session};
use self::text::Text;
use super::metrics::Metrics;
use super::store::{Changed, Project, StoreError, Version};

pub(crate) use self::settings::Settings;

#[derive(Debug)]
pub(crate) struct Postgres {
    pool: Rc<Pool>,
}

impl Postgres {
    /// Starts connecting. Must be called on the lane's thread, in its event loop.
    pub(crate) fn start(
        settings: &Arc<Settings>,
        dependency: Dependency,
        metrics: Arc<Metrics>,
    ) -> Self {
        let pool = Rc::new(Pool::new(settings, dependency, metrics));
        spawn_local(supervisor::supervise(Rc::clone(&pool), Arc::clone(settings)));
        Postgres { pool }
    }

    pub(crate) async fn get(&self, id: Uuid) -> Result<Option<Project>, StoreError> {
        self.run(async |session| {
            let row = session.client.query_opt(&session.statements.get, &[&id]).await?;
            row.map(|row| stored(id, &row)).transpose()
        })
        .await
    }

    pub(crate) async fn list(
        &self,
        after: Option<Uuid>,
        limit: u32,
    ) -> Result<Vec<Project>, StoreError> {
        // No project has the nil UUID, so every project comes after it.
        let after = after.unwrap_or_default();
        self.run(async |session| {
            let limit = i64::from(limit);
            let rows = session.client.query(&session.statements.list, &[&after, &limit]).await?;
            rows.iter().map(|row| stored(row.try_get(4)?, row)).collect()
        })
        .await
    }

    pub(crate) async fn create(&self, id: Uuid, document: Bytes) -> Result<Project, StoreError> {
        self.run(async |session| {
            let text = Text(&document);
            let row = session.client.query_one(&session.statements.create, &[&id, &text]).await?;
            saved(id, &row, document.clone())
        })
        .await
    }

    pub(crate) async fn replace(
        &self,
        id: Uuid,
        document: Bytes,
        expected: Option<Version>,
    ) -> Result<Changed<Project>, StoreError> {
        self.run(async |session| {
            let text = Text(&document);
            let wanted = expected.map(|version| version.0);
            let replace = &session.statements.replace;
            match session.client.query_opt(replace, &[&id, &text, &wanted]).await? {
                Some(row) => saved(id, &row, document.clone()).map(Changed::Done),
                None => unchanged(session, id, expected).await,
            }
        })
        .await
    }

    pub(crate) async fn delete(
        &self,
        id: Uuid,
        expected: Option<Version>,
    ) -> Result<Changed<()>, StoreError> {
        self.run(async |session| {
            let wanted = expected.map(|version| version.0);
            match session.client.execute(&session.statements.delete, &[&id, &wanted]).await? {
                0 => unchanged(session, id, expected).await,
                _ => Ok(Changed::Done(())),
            }
        })
        .await
    }

    /// Runs statements on a pooled session without retries. After a connection failure, only the
    /// database knows whether a save took place.
    async fn run<T>(
        &self,
        work: impl AsyncFnOnce(&Session) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let lent = self.pool.take().await?;
        let done = timeout(self.pool.longest_statement, work(&lent));
        let Ok(done) = lent.during(done).await else {
            lent.tell(Order::Discard("a statement was not answered in time"));
            return Err(StoreError::TimedOut);
        };
        done.map_err(|error| {
            let (meaning, fate) = judge(&error);
            match (meaning, fate) {
                (StoreError::Failed, _) => {
                    tracing::error!(error = describe(&error), "the database rejected a statement");
                }
                // The session stays open, for example if the disk is full, so nothing else would
                // report the error.
                (StoreError::Unavailable, Fate::Keep) => {
                    tracing::warn!(
                        error = describe(&error),
                        "the database could not run a statement"
                    );
                }
                // The error is not logged here. It is only counted because it can occur with every
                // request, or it is reported when the session ends.
                _ => {}
            }
            match fate {
                Fate::Keep => {}
                Fate::Discard => lent.tell(Order::Discard("a statement failed")),
                Fate::DiscardAll => self.pool.discard_all("the server is read-only now"),
            }
            meaning
        })
    }
}

async fn unchanged<T>(
    session: &Session,
    id: Uuid,
    expected: Option<Version>,
) -> Result<Changed<T>, Error> {
    if expected.is_none() {
        return Ok(Changed::Missing);
    }
    let row = session.client.query_opt(&session.statements.version, &[&id]).await?;
    row.map_or(Ok(Changed::Missing), |row| Ok(Changed::Conflict(Version(row.try_get(0)?))))
}

fn stored(id: Uuid, row: &Row) -> Result<Project, Error> {
    let Text(document) = row.try_get(3)?;
    saved(id, row, Bytes::copy_from_slice(document))
}

fn saved(id: Uuid, row: &Row, document: Bytes) -> Result<Project, Error> {
    Ok(Project {
        id,
        version: Version(row.try_get(0)?),
        created: row.try_get(1)?,
        updated: row.try_get(2)?,
        document,
    })
}
