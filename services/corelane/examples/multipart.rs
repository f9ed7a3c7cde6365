//! Streamed form uploads with files, under their own limit.
//!
//! ```sh
//! cargo run --example multipart 127.0.0.1:8080
//! curl -F note=hello -F file=@/bin/ls http://127.0.0.1:8080/upload
//! ```

use std::fmt::Write;
use std::time::Duration;

use axum::Router;
use axum::extract::multipart::MultipartError;
use axum::extract::{DefaultBodyLimit, Multipart};
use axum::routing::post;
use corelane::axum::LearnRoutes;
use corelane::{Limits, RouteLimits, Server};

/// Lists each part with its size. A file is never completely in memory, because the lane reads each
/// piece only when the handler awaits it.
async fn upload(mut form: Multipart) -> Result<String, MultipartError> {
    let mut text = String::new();
    while let Some(mut part) = form.next_field().await? {
        let name = part.file_name().or(part.name()).unwrap_or("?").to_owned();
        let mut bytes = 0;
        while let Some(piece) = part.chunk().await? {
            bytes += piece.len();
        }
        let _ = writeln!(text, "{name}: {bytes} bytes");
    }
    Ok(text)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let limits = Limits { body_bytes: 64 * 1024, ..Limits::default() };
    let server = Server::builder().bind(address.parse()?).limits(limits).build()?;
    println!("listening on {}", server.local_addr()?);
    let drained = server.serve(|_lane| {
        let uploads = RouteLimits {
            body_bytes: Some(100 * 1024 * 1024),
            request: Some(Duration::from_secs(600)),
            ..RouteLimits::default()
        };
        Router::new()
            .route("/upload", post(upload))
            // Limit of axum's own extractors.
            .layer(DefaultBodyLimit::disable())
            .layer(uploads)
            .route("/note", post(async |note: String| format!("{} bytes\n", note.len())))
            .layer(LearnRoutes)
    })?;
    println!("drained; {} requests were cut", drained.cut);
    Ok(())
}
