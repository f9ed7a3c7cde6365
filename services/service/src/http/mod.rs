//! A small HTTP/1.1 server for probes and metrics, and a client for one request.

mod client;
mod serve;
mod url;

pub use client::{ExchangeError, exchange};
pub use serve::{Answer, serve};
pub use url::Url;
