//! Probes and metrics.

use corelane_service::http::Answer;
use hyper::StatusCode;

use super::status::Status;

/// The reply to a GET of this path.
pub(crate) fn answer(path: &str, status: &Status) -> Answer {
    match path {
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/readyz" if status.has_file() => text(StatusCode::OK, "ok\n"),
        "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, "no endpoints have been read yet\n"),
        "/metrics" => (StatusCode::OK, "text/plain; version=0.0.4", status.metrics()),
        _ => text(StatusCode::NOT_FOUND, "not found\n"),
    }
}

fn text(status: StatusCode, words: &str) -> Answer {
    (status, "text/plain", words.to_owned())
}
