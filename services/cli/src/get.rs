//! Sends one GET on a new connection.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use corelane_service::http::{ExchangeError, Url, exchange};
use http_body_util::Empty;
use hyper::Response;
use hyper::header::CONNECTION;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub(crate) enum GetError {
    #[error("cannot resolve the name: {0}")]
    Name(io::Error),
    #[error("the name has no address")]
    NoAddress,
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    #[error("no reply within {LIMIT:?}")]
    Timeout,
}

pub(crate) async fn get(url: &Url, path: &str) -> Result<Response<Bytes>, GetError> {
    timeout(LIMIT, get_any(url, path)).await.unwrap_or(Err(GetError::Timeout))
}

async fn get_any(url: &Url, path: &str) -> Result<Response<Bytes>, GetError> {
    let mut outcome = Err(GetError::NoAddress);
    for address in url.addresses().await.map_err(GetError::Name)? {
        let request = url.request(path).header(CONNECTION, "close").body(Empty::new());
        let request = request.expect("a path of a URL is valid");
        outcome = exchange(address, request).await.map_err(GetError::from);
        if !matches!(outcome, Err(GetError::Exchange(ExchangeError::Connect(..)))) {
            break;
        }
    }
    outcome
}
