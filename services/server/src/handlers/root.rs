//! `GET /`: who answers.

use bytes::Bytes;
use corelane::Lane;
use http::Response;
use http_body_util::Full;
use serde_json::json;

/// What a lane says of itself; made once, because it never changes.
pub(crate) fn text(replica: &str, lane: &Lane) -> Bytes {
    let me = json!({
        "service": "corelane-server",
        "version": env!("CARGO_PKG_VERSION"),
        "replica": replica,
        "lane": lane.index(),
        "cpu": lane.cpu(),
    });
    Bytes::from(format!("{me}\n"))
}

pub(crate) fn reply(text: &Bytes) -> Response<Full<Bytes>> {
    super::ok("application/json", text.clone())
}
