//! HTTP messages: parsing, rejection, and the fields that the server adds.

pub(crate) mod conformance;
pub(crate) mod forwarded;
pub(crate) mod framing;
pub(crate) mod grpc;
pub(crate) mod head;
pub(crate) mod problem;
pub(crate) mod proxy_header;
pub(crate) mod remaining;
pub(crate) mod request_id;
pub(crate) mod trace_context;
