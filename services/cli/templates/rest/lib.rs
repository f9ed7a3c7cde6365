//! Notes over HTTP. Each lane has its own router and database connections.

use axum::body::Bytes; //+calls
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use corelane::axum::LearnRoutes;
use corelane::{Lane, Problem};
use corelane_client::{Client, Error}; //+calls
use serde::{Deserialize, Serialize};
use sqlx::AnyPool;
use sqlx::any::AnyPoolOptions;

/// Database connections across all lanes of this replica.
const CONNECTIONS: usize = 8;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, text TEXT NOT NULL)";

#[derive(Clone)]
struct Notes {
    database: AnyPool,
    greeting: String,
    __CALLS__: Client, //+calls
}

#[derive(Deserialize, Serialize)]
struct Note {
    text: String,
}

/// One lane's service. The replica starts only if every lane has its connections.
pub async fn service(lane: &Lane, url: &str, greeting: String) -> Result<Router, sqlx::Error> { //-calls
pub async fn service( //+calls
    lane: &Lane, //+calls
    url: &str, //+calls
    greeting: String, //+calls
    __CALLS__: Client, //+calls
) -> Result<Router, sqlx::Error> { //+calls
    let database = connect(lane, url).await?;
    Ok(Router::new()
        .route("/", get(front_page))
        .route("/notes/{name}", get(read).put(write))
        .route("/__CALLED__", get(call)) //+calls
        // Metrics, logs and the load table name each request after its route.
        .layer(LearnRoutes)
        .with_state(Notes { database, greeting })) //-calls
        .with_state(Notes { database, greeting, __CALLS__ })) //+calls
}

async fn connect(lane: &Lane, url: &str) -> Result<AnyPool, sqlx::Error> {
    sqlx::any::install_default_drivers();
    let share = (CONNECTIONS / lane.instances()).max(1) as u32;
    let database = AnyPoolOptions::new().max_connections(share).connect(url).await?;
    // In PostgreSQL, the statement can fail once if two lanes create the table at the same time.
    if sqlx::query(TABLE).execute(&database).await.is_err() {
        sqlx::query(TABLE).execute(&database).await?;
    }
    Ok(database)
}

async fn front_page(State(notes): State<Notes>) -> String {
    notes.greeting + "\n"
}

/// Passes on the front page of __CALLED__. Without a response in time, the client gets a 503 or 502. //+calls
async fn call(State(notes): State<Notes>) -> Result<(StatusCode, Bytes), Error> { //+calls
    let reply = notes.__CALLS__.get("/").await?; //+calls
    Ok((reply.status(), reply.into_body())) //+calls
} //+calls
 //+calls
async fn read(State(notes): State<Notes>, Path(name): Path<String>) -> Result<Json<Note>, Failed> {
    let query = sqlx::query_scalar("SELECT text FROM notes WHERE name = $1").bind(name);
    let text = query.fetch_optional(&notes.database).await?.ok_or(Failed::NoNote)?;
    Ok(Json(Note { text }))
}

async fn write(
    State(notes): State<Notes>,
    Path(name): Path<String>,
    Json(note): Json<Note>,
) -> Result<StatusCode, Failed> {
    let write = "INSERT INTO notes (name, text) VALUES ($1, $2)
                 ON CONFLICT (name) DO UPDATE SET text = excluded.text";
    sqlx::query(write).bind(name).bind(note.text).execute(&notes.database).await?;
    Ok(StatusCode::NO_CONTENT)
}

enum Failed {
    NoNote,
    Database(sqlx::Error),
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Failed::Database(error)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let problem = match self {
            Failed::NoNote => Problem::new(StatusCode::NOT_FOUND, "no-note").detail("no such note"),
            Failed::Database(error) => {
                tracing::error!(%error, "the database failed");
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "database-unavailable")
            }
        };
        problem.into_response().into_response()
    }
}
