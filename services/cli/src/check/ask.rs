//! One GET on a new connection.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use corelane_service::{ExchangeError, exchange};
use http_body_util::Empty;
use hyper::header::{CONNECTION, HOST};
use hyper::http::uri::Authority;
use hyper::{Request, Response, Uri};
use tokio::net::lookup_host;
use tokio::time::timeout;

/// Longest time for one answer, look-up included: what hangs is asked again.
const ANSWER: Duration = Duration::from_secs(5);

/// An `http://` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    authority: Authority,
    path: String,
}

impl Url {
    /// Reads a URL; the error says what is allowed.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let allowed = "allowed is http://HOST[:PORT][/PATH], such as http://gateway/hello";
        let uri = text.parse::<Uri>().map_err(|_| allowed)?.into_parts();
        let authority = uri.authority.ok_or(allowed)?;
        let plain = uri.scheme.is_some_and(|scheme| scheme == hyper::http::uri::Scheme::HTTP);
        if !plain || authority.host().is_empty() || authority.as_str().contains('@') {
            return Err(allowed);
        }
        let path = uri.path_and_query.map_or_else(|| "/".to_owned(), |path| path.to_string());
        Ok(Self { authority, path })
    }

    async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let host = self.authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = self.authority.port_u16().unwrap_or(80);
        Ok(lookup_host((host, port)).await?.collect())
    }

    fn request(&self) -> Request<Empty<Bytes>> {
        Request::get(&self.path)
            .header(HOST, self.authority.as_str())
            .header(CONNECTION, "close")
            .body(Empty::new())
            .expect("a URL that was parsed is valid")
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("cannot resolve the name: {0}")]
    Name(io::Error),
    #[error("the name has no address")]
    NoAddress,
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    #[error("no answer within {ANSWER:?}")]
    Slow,
}

/// Looks the name up and asks the first address that can be connected to.
pub(crate) async fn ask(url: &Url) -> Result<Response<Bytes>, AskError> {
    timeout(ANSWER, ask_any(url)).await.unwrap_or(Err(AskError::Slow))
}

async fn ask_any(url: &Url) -> Result<Response<Bytes>, AskError> {
    let mut outcome = Err(AskError::NoAddress);
    for address in url.addresses().await.map_err(AskError::Name)? {
        outcome = exchange(address, url.request()).await.map_err(AskError::from);
        if !matches!(outcome, Err(AskError::Exchange(ExchangeError::Connect(..)))) {
            break;
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_host_and_may_have_the_rest() {
        for (text, shown) in [
            ("http://gateway", "http://gateway/"),
            ("http://gateway:8080/a?b=c", "http://gateway:8080/a?b=c"),
            ("http://[::1]:80/", "http://[::1]:80/"),
        ] {
            assert_eq!(Url::parse(text).map(|url| url.to_string()), Ok(shown.to_owned()));
        }
    }

    #[test]
    fn other_urls_are_refused() {
        for text in
            ["", "gateway", "/hello", "https://gateway/", "http://", "http://a@b/", "http://:80/"]
        {
            let error = Url::parse(text).expect_err(text);
            assert!(error.starts_with("allowed is http://HOST"), "{error}");
        }
    }
}
