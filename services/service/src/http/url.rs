//! URLs of plain HTTP.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Uri, header, request};
use tokio::net::lookup_host;

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

    /// The port, by default 80.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path with the query.
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

    /// Parses a URL; the error says what is allowed.
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
