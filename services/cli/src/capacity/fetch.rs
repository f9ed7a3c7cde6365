//! The metrics of a replica, from its admin port.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use corelane_service::{ExchangeError, exchange};
use http_body_util::Empty;
use hyper::header::{CONNECTION, HOST};
use hyper::http::uri::{Authority, Scheme};
use hyper::{Request, StatusCode, Uri};
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::exposition::Exposition;

/// Longest time for an answer.
const ANSWER: Duration = Duration::from_secs(5);

/// An `http://` URL without a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url(Authority);

impl Url {
    /// Reads a URL; the error says what is allowed.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let allowed =
            "allowed is http://HOST[:PORT] of an admin port, such as http://127.0.0.1:8081";
        let uri = text.parse::<Uri>().map_err(|_| allowed)?.into_parts();
        let path =
            uri.path_and_query.is_some_and(|path| !matches!(path.as_str(), "/" | "/metrics"));
        let plain = uri.scheme == Some(Scheme::HTTP) && !path;
        let named = |at: &Authority| !at.host().is_empty() && !at.as_str().contains('@');
        uri.authority.filter(|at| plain && named(at)).map(Url).ok_or(allowed)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}/metrics", self.0)
    }
}

/// Why there are no metrics.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("cannot resolve the name: {0}")]
    Name(io::Error),
    #[error("the name has no address")]
    NoAddress,
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    #[error("no answer within {ANSWER:?}")]
    Slow,
    #[error("it answered {0}, not 200")]
    Status(StatusCode),
}

/// Reads all series of a replica.
pub(crate) async fn fetch(url: &Url) -> Result<Exposition, FetchError> {
    timeout(ANSWER, ask(url)).await.unwrap_or(Err(FetchError::Slow))
}

async fn ask(url: &Url) -> Result<Exposition, FetchError> {
    let host = url.0.host().trim_start_matches('[').trim_end_matches(']');
    let port = url.0.port_u16().unwrap_or(80);
    let mut failure = FetchError::NoAddress;
    for address in lookup_host((host, port)).await.map_err(FetchError::Name)? {
        let request = Request::get("/metrics").header(HOST, url.0.as_str());
        let request = request.header(CONNECTION, "close").body(Empty::<Bytes>::new());
        match exchange(address, request.expect("its parts are valid")).await {
            Ok(reply) if reply.status() == StatusCode::OK => {
                return Ok(Exposition::read(&String::from_utf8_lossy(reply.body())));
            }
            Ok(reply) => return Err(FetchError::Status(reply.status())),
            Err(error) => failure = error.into(),
        }
    }
    Err(failure)
}
