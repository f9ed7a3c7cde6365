//! A small HTTP/1.1 server for probes and metrics, and a client for single requests.
//!
//! ```
//! use corelane_service::http::{exchange, serve};
//! use corelane_service::process;
//! use http::{Request, StatusCode};
//! use tokio::net::TcpListener;
//!
//! let reply = process::block_on(
//!     async {
//!         let listener = TcpListener::bind("127.0.0.1:0").await?;
//!         let address = listener.local_addr()?;
//!         tokio::spawn(serve(listener, |path| (StatusCode::OK, "text/plain", format!("{path}\n"))));
//!         let request = Request::get("/healthz").header("host", "here").body(String::new());
//!         Ok::<_, std::io::Error>(exchange(address, request.expect("valid")).await)
//!     },
//!     true,
//! )??;
//! assert_eq!(reply.expect("a reply").body(), "/healthz\n");
//! # Ok::<(), std::io::Error>(())
//! ```

mod serve;

use std::net::SocketAddr;
use std::str::FromStr;
use std::{fmt, io};

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Uri, header, request};
use http_body_util::{BodyExt, Limited};
use hyper::body::Body;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};

pub use serve::{Answer, serve, serve_requests};

/// Maximum response size. These programs request short responses.
const BODY_BYTES: usize = 1024 * 1024;

/// Reason why there is no complete response.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The connection failed.
    #[error("cannot connect to {0}: {1}")]
    Connect(SocketAddr, io::Error),
    /// The connection closed early, or the response is not HTTP.
    #[error("no whole reply from {0}: {1}")]
    Reply(SocketAddr, Box<dyn std::error::Error + Send + Sync>),
}

/// Sends an HTTP/1.1 request and reads the response, up to 1 MiB.
///
/// The function sets no time limit. Dropping the future closes the connection.
///
/// # Errors
///
/// There is no complete response.
pub async fn exchange<B>(
    address: SocketAddr,
    request: Request<B>,
) -> Result<Response<Bytes>, ExchangeError>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + 'static,
{
    let stream = TcpStream::connect(address).await;
    let stream = stream.map_err(|error| ExchangeError::Connect(address, error))?;
    let failed = |error| ExchangeError::Reply(address, error);
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(error.into()))?;
    let whole = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, BODY_BYTES).collect().await?.to_bytes();
        Ok(Response::from_parts(head, body))
    };
    // The connection makes progress only while it is polled. The request also reports its errors.
    let moved = async {
        let _ = connection.await;
        std::future::pending().await
    };
    tokio::select! {
        reply = whole => reply.map_err(failed),
        never = moved => never,
    }
}

/// An `http://` URL without user and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    authority: Authority,
    path: PathAndQuery,
    port: u16,
}

impl Url {
    /// The host as written in the URL; an IPv6 address has brackets.
    pub fn host(&self) -> &str {
        self.authority.host()
    }

    /// The port; 80 by default.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path, including the query.
    pub fn path(&self) -> &PathAndQuery {
        &self.path
    }

    /// All addresses of the host.
    ///
    /// # Errors
    ///
    /// The name does not resolve.
    pub async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let host = self.host().trim_start_matches('[').trim_end_matches(']');
        Ok(lookup_host((host, self.port)).await?.collect())
    }

    /// A request for a path of this host, with its `Host` field.
    pub fn request(&self, path: &str) -> request::Builder {
        http::Request::builder().uri(path).header(header::HOST, self.authority.as_str())
    }
}

impl FromStr for Url {
    type Err = String;

    /// The error describes the expected form.
    fn from_str(text: &str) -> Result<Self, String> {
        read(text).ok_or_else(|| "http://HOST[:PORT][/PATH]".to_owned())
    }
}

fn read(text: &str) -> Option<Url> {
    let parts = text.parse::<Uri>().ok()?.into_parts();
    let authority = parts.authority?;
    let plain = parts.scheme == Some(Scheme::HTTP) && !authority.as_str().contains('@');
    if !plain || authority.host().is_empty() {
        return None;
    }
    let port = match authority.as_str().strip_prefix(authority.host())? {
        "" => 80,
        port => port.strip_prefix(':')?.parse().ok().filter(|&port| port > 0)?,
    };
    let path = parts.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
    Some(Url { authority, path, port })
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_host_and_may_have_the_rest() {
        for (text, shown, port) in [
            ("http://gateway", "http://gateway/", 80),
            ("http://gateway:8080/a?b=c", "http://gateway:8080/a?b=c", 8080),
            ("http://[::1]:81/", "http://[::1]:81/", 81),
        ] {
            let url: Url = text.parse().expect(text);
            assert_eq!((url.to_string().as_str(), url.port()), (shown, port));
        }
    }

    #[test]
    fn other_urls_are_rejected() {
        for text in [
            "",
            "gateway",
            "/hello",
            "https://gateway/",
            "http://",
            "http://a@b/",
            "http://a:b@c/",
            "http://:80/",
            "http://c:0",
            "http://c:99999",
            "4318",
        ] {
            let error = text.parse::<Url>().expect_err(text);
            assert_eq!(error, "http://HOST[:PORT][/PATH]");
        }
    }
}
