//! A pool of database connections and an HTTP client in each lane.
//!
//! The runtime that opened a connection also drives it. In a pool shared by lanes, a request may
//! get another lane's connection and wait while a handler blocks that lane. Each lane therefore
//! opens its own share of the connections (see `docs/postgresql.md`).
//!
//! ```sh
//! DATABASE_URL=postgres://me@127.0.0.1/shop cargo run -p corelane-examples --bin pools 127.0.0.1:8080
//! curl http://127.0.0.1:8080/answer
//! curl http://127.0.0.1:8080/relay
//! ```

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use corelane::axum::LearnRoutes;
use corelane::{Lane, Server};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

const CONNECTIONS: u32 = 16;

#[derive(Clone)]
struct Parts {
    database: PgPool,
    client: reqwest::Client,
    upstream: String,
}

/// Opens the connections of a lane. The server starts only if every lane has its connections.
async fn connect(lane: &Lane, url: &str, upstream: String) -> Result<Parts, sqlx::Error> {
    let share = (CONNECTIONS / lane.instances() as u32).max(1);
    let database = PgPoolOptions::new().max_connections(share).connect(url).await?;
    Ok(Parts { database, client: reqwest::Client::new(), upstream })
}

async fn answer(State(parts): State<Parts>) -> Result<String, (StatusCode, String)> {
    let answer = sqlx::query_scalar::<_, i32>("SELECT 6 * 7").fetch_one(&parts.database).await;
    let unavailable = |error: sqlx::Error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string());
    Ok(format!("{}\n", answer.map_err(unavailable)?))
}

async fn relay(State(parts): State<Parts>) -> Result<String, (StatusCode, String)> {
    let bad = |error: reqwest::Error| (StatusCode::BAD_GATEWAY, error.to_string());
    let reply = parts.client.get(&parts.upstream).send().await.map_err(bad)?;
    reply.text().await.map_err(bad)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Ok(url) = std::env::var("DATABASE_URL") else {
        println!("skipped: DATABASE_URL is not set, for example postgres://me@127.0.0.1/shop");
        return Ok(());
    };
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let server = Server::builder().bind(address.parse()?).build()?;
    println!("listening on {}", server.local_addr()?);
    let upstream = format!("http://{}/answer", server.local_addr()?);
    let drained = server.try_serve(move |lane| {
        let (url, upstream) = (url.clone(), upstream.clone());
        async move {
            let parts = connect(&lane, &url, upstream).await?;
            let router = Router::new().route("/answer", get(answer)).route("/relay", get(relay));
            Ok::<_, sqlx::Error>(router.layer(LearnRoutes).with_state(parts))
        }
    })?;
    println!("drained; {} requests were cut", drained.cut);
    Ok(())
}
