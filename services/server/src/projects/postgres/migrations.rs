//! The tables: a list of migrations, each applied once, under a lock shared by all replicas.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::{Client, Error, GenericClient, Transaction};

/// A step from one version of the tables to the next.
struct Migration {
    sql: &'static str,
    /// The oldest build version that works with the tables after this step. Purely additive steps
    /// work with older builds, so that a rollout can mix versions.
    serves: i32,
}

/// The n-th migration creates version n of the tables. Released migrations never change.
const MIGRATIONS: &[Migration] =
    &[Migration { sql: include_str!("migrations/1-projects.sql"), serves: 1 }];

const KNOWN: i32 = MIGRATIONS.len() as i32;

const MIGRATING: Duration = Duration::from_secs(600);

/// The key of the advisory lock for migrations: "corelane" in ASCII.
const LOCK: i64 = 0x636f_7265_6c61_6e65;

/// Reason why the tables cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error(transparent)]
    Database(#[from] Error),
    #[error("no answer within {0:?}")]
    NoAnswer(Duration),
    #[error("the migrations did not end within {} s", MIGRATING.as_secs())]
    TooLong,
    #[error(
        "its tables have version {found}, and this build knows {KNOWN}: with database.migrate = \
         off, so migrate them by other means"
    )]
    TooOld { found: i32 },
    #[error(
        "its tables have version {found}, which serves builds that know {serves} or more, and \
         this build knows {KNOWN}"
    )]
    TooNew { found: i32, serves: i32 },
}

/// Checks that the tables match this build, and migrates them if that is enabled. Reading their
/// version must take no longer than `limit`.
pub(super) async fn prepare(
    client: &mut Client,
    migrate: bool,
    limit: Duration,
) -> Result<(), Unfit> {
    match timeout(limit, version(client)).await.map_err(|_| Unfit::NoAnswer(limit))?? {
        (KNOWN, _) => Ok(()),
        (found, serves) if found > KNOWN => {
            if serves <= KNOWN {
                Ok(())
            } else {
                Err(Unfit::TooNew { found, serves })
            }
        }
        (found, _) if !migrate => Err(Unfit::TooOld { found }),
        _ => {
            let migrated = timeout(MIGRATING, apply_all(client)).await;
            migrated.map_err(|_| Unfit::TooLong)?.map_err(Unfit::Database)
        }
    }
}

/// The tables' version, and the oldest compatible build version; 0 before the first migration.
async fn version(client: &impl GenericClient) -> Result<(i32, i32), Error> {
    let table = "SELECT to_regclass('corelane_migrations') IS NOT NULL";
    if !client.query_typed_one(table, &[]).await?.try_get::<_, bool>(0)? {
        return Ok((0, 0));
    }
    let last = "SELECT version, serves FROM corelane_migrations ORDER BY version DESC LIMIT 1";
    match client.query_typed_opt(last, &[]).await? {
        Some(row) => Ok((row.try_get(0)?, row.try_get(1)?)),
        None => Ok((0, 0)),
    }
}

async fn apply_all(client: &mut Client) -> Result<(), Error> {
    loop {
        let transaction = client.transaction().await?;
        let applied = apply_next(&transaction).await?;
        transaction.commit().await?;
        let Some(version) = applied else { return Ok(()) };
        tracing::info!(version, "the tables of the database were migrated");
    }
}

/// Applies the first missing migration in a transaction that holds the lock. Replicas that start at
/// the same time migrate one after another. A failed migration changes nothing.
async fn apply_next(transaction: &Transaction<'_>) -> Result<Option<i32>, Error> {
    // Changing a large table takes time. lock_timeout also limits the wait for the advisory lock.
    let bounds = "SET LOCAL statement_timeout = '10min'; SET LOCAL lock_timeout = '1min'";
    transaction.batch_execute(bounds).await?;
    transaction.batch_execute(&format!("SELECT pg_advisory_xact_lock({LOCK})")).await?;
    transaction
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS corelane_migrations (
                 version integer PRIMARY KEY,
                 serves integer NOT NULL,
                 applied timestamptz NOT NULL DEFAULT now()
             )",
        )
        .await?;
    let (found, _) = version(transaction).await?;
    let Some(Migration { sql, serves }) = MIGRATIONS.get(found as usize) else { return Ok(None) };
    transaction.batch_execute(sql).await?;
    let next = found + 1;
    transaction
        .batch_execute(&format!(
            "INSERT INTO corelane_migrations (version, serves) VALUES ({next}, {serves})"
        ))
        .await?;
    Ok(Some(next))
}
