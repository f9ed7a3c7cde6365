//! `GET /hello`: a minimal 13-byte response, which shows the cost of a request's path.

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::openapi::{self, Operation};

pub(crate) fn reply(map: HeaderMap) -> Response<Full<Bytes>> {
    super::text(map, Bytes::from_static(b"Hello, World!"))
}

pub(crate) fn describe() -> openapi::Path {
    let text = json!({ "type": "string", "const": "Hello, World!" });
    let reply = openapi::reply("A greeting", Some(("text/plain; charset=utf-8", text)));
    let get = Operation::new("hello", "A greeting of 13 bytes")
        .tag(openapi::WORKLOADS)
        .reply(200, openapi::with_example(reply, "Hello, World!"));
    ("/hello", json!({ "get": Value::from(get) }))
}
