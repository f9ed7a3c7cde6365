//! `GET /hello`: the smallest useful reply, 13 bytes; what the path of a request costs.

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
    let get = Operation::new("hello", "13 bytes")
        .reply(200, openapi::reply("A greeting", Some(("text/plain; charset=utf-8", text))));
    ("/hello", json!({ "get": Value::from(get) }))
}
