//! Opens, sets up and drives one connection.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Error, Socket, Statement};

use super::fault::describe;
use super::migrations;
use super::settings::{Settings, name};
use super::tls::{Stream, Tls};

pub(super) type Connection = tokio_postgres::Connection<Socket, Stream>;

const OLDEST: i32 = 150_000;

#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) statements: Statements,
    pub(super) ended: Cell<bool>,
    order: RefCell<Option<Order>>,
    ordered: Notify,
}

#[derive(Debug)]
pub(super) enum Order {
    /// A request was dropped during a statement: return the session when the statement ends.
    Settle,
    /// Close the connection, and cancel the statement that is running on it.
    Discard(&'static str),
}

impl Session {
    /// Orders after a discard are ignored.
    pub(super) fn tell(&self, order: Order) {
        if self.ended.get() {
            return;
        }
        self.ended.set(matches!(order, Order::Discard(_)));
        self.order.replace(Some(order));
        self.ordered.notify_one();
    }

    pub(super) async fn order(&self) -> Order {
        loop {
            if let Some(order) = self.order.borrow_mut().take() {
                return order;
            }
            self.ordered.notified().await;
        }
    }
}

/// Statements, prepared once per connection.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) get: Statement,
    pub(super) list: Statement,
    pub(super) create: Statement,
    pub(super) replace: Statement,
    pub(super) delete: Statement,
    pub(super) version: Statement,
}

impl Statements {
    async fn prepare(client: &Client) -> Result<Self, Error> {
        let types = [Type::UUID, Type::TEXT, Type::INT8];
        Ok(Statements {
            get: client
                .prepare("SELECT version, created, updated, document FROM projects WHERE id = $1")
                .await?,
            list: client
                .prepare(
                    "SELECT version, created, updated, document, id FROM projects
                     WHERE id > $1 ORDER BY id LIMIT $2",
                )
                .await?,
            create: client
                .prepare_typed(
                    "INSERT INTO projects (id, document) VALUES ($1, $2)
                     RETURNING version, created, updated",
                    &types[..2],
                )
                .await?,
            // Without an expected version, any version matches.
            replace: client
                .prepare_typed(
                    "UPDATE projects SET document = $2, version = version + 1, updated = now()
                     WHERE id = $1 AND ($3 IS NULL OR version = $3)
                     RETURNING version, created, updated",
                    &types,
                )
                .await?,
            delete: client
                .prepare_typed(
                    "DELETE FROM projects WHERE id = $1 AND ($2 IS NULL OR version = $2)",
                    &[Type::UUID, Type::INT8],
                )
                .await?,
            version: client.prepare("SELECT version FROM projects WHERE id = $1").await?,
        })
    }
}

pub(super) async fn open(settings: &Arc<Settings>) -> Result<(Session, Connection, Tls), String> {
    let files = Arc::clone(settings);
    let credentials = tokio::task::spawn_blocking(move || files.credentials()).await;
    let credentials = credentials.map_err(|error| error.to_string())??;
    let mut reasons = Vec::new();
    for host in &settings.hosts {
        let mut host = host.clone();
        if let Some(password) = &credentials.password {
            host.password(password);
        }
        match open_on(&host, credentials.tls.clone(), settings).await {
            Ok((session, connection)) => return Ok((session, connection, credentials.tls)),
            Err(reason) => reasons.push(format!("{}: {reason}", name(&host))),
        }
    }
    Err(reasons.join("; "))
}

async fn open_on(
    host: &Config,
    tls: Tls,
    settings: &Settings,
) -> Result<(Session, Connection), String> {
    let slow = |_| format!("no answer within {:?}", settings.connect_timeout);
    let greeting = async {
        let (mut client, mut connection) = host.connect(tls).await.map_err(|e| describe(&e))?;
        let set_up = set_up(&mut client, settings.statement_timeout);
        driven(&mut connection, set_up).await?;
        Ok::<_, String>((client, connection))
    };
    let (mut client, mut connection) =
        timeout(settings.connect_timeout, greeting).await.map_err(slow)??;
    // The migration has a separate time limit, because other replicas may be migrating.
    let tables = async {
        let limit = settings.connect_timeout;
        let prepared = migrations::prepare(&mut client, settings.migrate, limit).await;
        prepared.map_err(|e| match e {
            migrations::Unfit::Database(error) => describe(&error),
            other => other.to_string(),
        })
    };
    driven(&mut connection, tables).await?;
    let preparing = async { Statements::prepare(&client).await.map_err(|error| describe(&error)) };
    let statements = timeout(settings.connect_timeout, driven(&mut connection, preparing))
        .await
        .map_err(slow)??;
    let session = Session {
        client,
        statements,
        ended: Cell::new(false),
        order: RefCell::default(),
        ordered: Notify::new(),
    };
    Ok((session, connection))
}

/// Runs a future while driving a connection that has no task yet.
async fn driven<T>(
    connection: &mut Connection,
    work: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    tokio::select! {
        biased;
        done = work => done,
        ended = connection => Err(why(ended)),
    }
}

pub(super) fn why(ended: Result<(), Error>) -> String {
    ended.map_or_else(|error| describe(&error), |()| "the connection was closed".to_owned())
}

/// Sets the parameters that saves and timeouts depend on, regardless of the role's and database's
/// defaults, and checks the server.
async fn set_up(client: &mut Client, statement_timeout: Duration) -> Result<(), String> {
    // Only `remote_apply` is stronger than `on` (PostgreSQL, "Write Ahead Log Settings").
    const SET_UP: &str = "
        SELECT set_config('synchronous_commit',
                   CASE current_setting('synchronous_commit')
                       WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false),
               set_config('statement_timeout', $1, false),
               set_config('default_transaction_isolation', 'read committed', false),
               current_setting('server_version_num')::integer,
               current_setting('server_encoding'),
               current_setting('fsync')";
    let limit = statement_timeout.as_millis().to_string();
    let row = client.query_typed_one(SET_UP, &[(&limit, Type::TEXT)]).await;
    let read = row.and_then(|row| {
        Ok((row.try_get::<_, i32>(3)?, row.try_get::<_, String>(4)?, row.try_get::<_, String>(5)?))
    });
    let (version, encoding, fsync) = read.map_err(|error| describe(&error))?;
    if version < OLDEST {
        return Err(format!("PostgreSQL {} is too old: 15 is needed", version / 10_000));
    }
    if encoding != "UTF8" {
        return Err(format!("the database's encoding is {encoding}: UTF8 is needed"));
    }
    if fsync != "on" {
        tracing::warn!("the database runs with fsync = off: a crash of its machine loses saves");
    }
    Ok(())
}
