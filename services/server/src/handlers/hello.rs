//! `GET /hello`: the smallest useful reply, 13 bytes; what the path of a request costs.

use bytes::Bytes;
use http::Response;
use http_body_util::Full;

pub(crate) fn reply() -> Response<Full<Bytes>> {
    super::text(Bytes::from_static(b"Hello, World!"))
}
