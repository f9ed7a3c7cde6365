//! Finds a client's address behind proxies, from `X-Forwarded-For` or `Forwarded` (RFC 7239).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use http::header::{FORWARDED, HeaderName};
use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;

use crate::base::settings::ForwardedHeader;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

const UNIX: &str = "unix";

/// A proxy or network of proxies that may name its client, set by
/// [`Builder::trusted_proxies`](crate::Builder::trusted_proxies).
///
/// In text form: a network such as `10.0.0.0/8`, an IP address, or `unix` for all clients on Unix
/// sockets.
///
/// ```
/// use corelane::TrustedProxy;
///
/// assert!("10.0.0.0/8".parse::<TrustedProxy>().is_ok());
/// assert!("10.0.0.0/33".parse::<TrustedProxy>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedProxy(Proxy);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Proxy {
    Network(IpNet),
    Unix,
}

impl FromStr for TrustedProxy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == UNIX {
            return Ok(TrustedProxy(Proxy::Unix));
        }
        let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let allowed = |_| "a network such as 10.0.0.0/8, an IP address, or unix".to_owned();
        network.map(|network| TrustedProxy(Proxy::Network(network))).map_err(allowed)
    }
}

impl fmt::Display for TrustedProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Proxy::Network(network) => network.fmt(f),
            Proxy::Unix => f.write_str(UNIX),
        }
    }
}

/// Trusted proxies and their client address header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trust {
    pub(crate) proxies: Vec<TrustedProxy>,
    pub(crate) header: ForwardedHeader,
}

impl Trust {
    /// The client of a request from `peer` with these headers: the last address in them that is not
    /// a trusted proxy. `peer` is `None` for a Unix socket.
    ///
    /// Stops at an unreadable entry and returns the address to its right. A client could have
    /// written anything to the left of the entry that the first trusted proxy appends.
    pub(crate) fn client(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
        let mut client = peer.map(|peer| peer.to_canonical());
        if !self.covers(client) {
            return client;
        }
        let name = match self.header {
            ForwardedHeader::XForwardedFor => X_FORWARDED_FOR,
            ForwardedHeader::Forwarded => FORWARDED,
        };
        // Multiple lines form one list (RFC 9110 section 5.3).
        for element in headers.get_all(name).iter().rev().flat_map(elements) {
            let address = match self.header {
                ForwardedHeader::XForwardedFor => address(element),
                ForwardedHeader::Forwarded => forwarded_for(element),
            };
            let Some(address) = address else { return client };
            client = Some(address);
            if !self.covers(client) {
                return client;
            }
        }
        client
    }

    /// Whether the peer is a trusted proxy. `None` means a proxy on a Unix socket.
    fn covers(&self, address: Option<IpAddr>) -> bool {
        self.proxies.iter().any(|proxy| match (&proxy.0, &address) {
            (Proxy::Network(network), Some(address)) => network.contains(address),
            (Proxy::Unix, address) => address.is_none(),
            (Proxy::Network(_), None) => false,
        })
    }
}

fn elements(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value.as_bytes());
    std::iter::from_fn(move || {
        let list = rest.take()?;
        let comma = last_comma(list);
        rest = comma.map(|comma| &list[..comma]);
        Some(list[comma.map_or(0, |comma| comma + 1)..].trim_ascii())
    })
    .filter(|element| !element.is_empty())
}

/// The last comma outside quoted strings. Quotes are paired from the end, where the nearest proxy
/// appends, so that an open quote from a client cannot hide later entries.
fn last_comma(list: &[u8]) -> Option<usize> {
    let mut quoted = false;
    for (at, byte) in list.iter().enumerate().rev() {
        match byte {
            b'"' => quoted = !quoted,
            b',' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// The address in the element's only `for` parameter.
fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let mut nodes = element.split(|&byte| byte == b';').filter_map(|pair| {
        let (name, node) = pair.split_at(pair.iter().position(|&byte| byte == b'=')?);
        name.trim_ascii().eq_ignore_ascii_case(b"for").then(|| node[1..].trim_ascii())
    });
    let node = nodes.next().filter(|_| nodes.next().is_none())?;
    let unquoted = node.strip_prefix(b"\"").and_then(|node| node.strip_suffix(b"\""));
    address(unquoted.unwrap_or(node))
}

/// Parses an IPv4 or IPv6 address, with or without brackets and a port.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || text.parse().ok().as_ref().map(SocketAddr::ip);
    let address = text.parse().ok().or_else(bracketed).or_else(with_port)?;
    Some(IpAddr::to_canonical(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trust(proxies: &[&str], header: ForwardedHeader) -> Trust {
        let parse = |text: &&str| text.parse().expect("a proxy");
        Trust { proxies: proxies.iter().map(parse).collect(), header }
    }

    fn client(header: ForwardedHeader, peer: &str, lines: &[&str]) -> String {
        let trusted = ["10.0.0.0/8", "2001:db8:1::/48", "192.0.2.7"];
        let trust = trust(&trusted, header);
        let mut headers = HeaderMap::new();
        let names = [X_FORWARDED_FOR, FORWARDED];
        let at = usize::from(header == ForwardedHeader::Forwarded);
        for line in lines {
            headers.append(&names[at], HeaderValue::from_str(line).expect("a value"));
        }
        // The header that is not configured is never read.
        headers.append(&names[1 - at], HeaderValue::from_static("for=6.6.6.6, 6.6.6.6"));
        let found = trust.client(Some(peer.parse().expect("an address")), &headers);
        found.expect("an address").to_string()
    }

    #[test]
    fn the_last_address_that_is_not_a_proxy_is_the_client() {
        let cases: &[(&str, &[&str], &str)] = &[
            // No proxy is trusted.
            ("203.0.113.9", &["198.51.100.1"], "203.0.113.9"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            // A client wrote the first entry.
            ("10.0.0.1", &["1.1.1.1, 198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["1.1.1.1, 198.51.100.1,10.2.3.4 , 192.0.2.7"], "198.51.100.1"),
            ("10.0.0.1", &["1.1.1.1", "198.51.100.1", "10.2.3.4"], "198.51.100.1"),
            ("10.0.0.1", &["198.51.100.1", "", " , ,"], "198.51.100.1"),
            // All entries are proxies, so the farthest entry is the client.
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            // Ports, brackets, and both IP versions.
            ("10.0.0.1", &["198.51.100.1:4711"], "198.51.100.1"),
            ("10.0.0.1", &["2001:db8::5"], "2001:db8::5"),
            ("10.0.0.1", &["[2001:db8::5]"], "2001:db8::5"),
            ("10.0.0.1", &["[2001:db8::5]:4711"], "2001:db8::5"),
            ("10.0.0.1", &["2001:db8::5, 2001:db8:1::2"], "2001:db8::5"),
            // This is how a dual-stack socket shows IPv4 addresses.
            ("::ffff:10.0.0.1", &["::ffff:198.51.100.1, ::ffff:10.9.9.9"], "198.51.100.1"),
            ("::ffff:203.0.113.9", &["198.51.100.1"], "203.0.113.9"),
            // The search stops at an unreadable entry.
            ("10.0.0.1", &["198.51.100.1, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["1.1.1.1, bad, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &["1.1.1.1, \", 198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["198.51.100.1:70000"], "10.0.0.1"),
            ("10.0.0.1", &["fe80::1%eth0"], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.256"], "10.0.0.1"),
            ("10.0.0.1", &["1.1.1.1 2.2.2.2"], "10.0.0.1"),
        ];
        for (peer, lines, want) in cases {
            let found = client(ForwardedHeader::XForwardedFor, peer, lines);
            assert_eq!(found, *want, "{peer} {lines:?}");
        }
    }

    #[test]
    fn forwarded_is_read_as_its_rfc_says() {
        let cases: &[(&str, &str)] = &[
            ("for=198.51.100.1", "198.51.100.1"),
            ("For=\"198.51.100.1:80\";proto=https;by=10.0.0.1", "198.51.100.1"),
            ("proto=https; FOR=\"[2001:db8::5]:80\"", "2001:db8::5"),
            ("for=1.1.1.1, for=\"[2001:db8::5]\";by=a, for=10.0.0.2;host=\"a,b\"", "2001:db8::5"),
            // The client left a quote open.
            ("for=\"1.1.1.1, for=198.51.100.1", "198.51.100.1"),
            ("for=\"1.1.1.1, for=\"[2001:db8::5]\"", "2001:db8::5"),
            ("for=unknown", "10.0.0.1"),
            ("for=_hidden, for=10.0.0.2", "10.0.0.2"),
            ("for=1.1.1.1;for=2.2.2.2", "10.0.0.1"),
            ("by=1.1.1.1", "10.0.0.1"),
            ("1.1.1.1", "10.0.0.1"),
        ];
        for (line, want) in cases {
            let found = client(ForwardedHeader::Forwarded, "10.0.0.1", &[line]);
            assert_eq!(found, *want, "{line}");
        }
        let lines = ["for=1.1.1.1", "for=198.51.100.1", "for=10.1.1.1"];
        assert_eq!(client(ForwardedHeader::Forwarded, "10.0.0.1", &lines), "198.51.100.1");
    }

    #[test]
    fn a_client_of_a_unix_socket_is_believed_only_if_that_was_set() {
        let mut headers = HeaderMap::new();
        headers.append(X_FORWARDED_FOR, HeaderValue::from_static("198.51.100.1"));
        let client = |trusted| trust(&[trusted], ForwardedHeader::default()).client(None, &headers);
        assert_eq!(client("10.0.0.0/8"), None);
        assert_eq!(client("unix"), Some(IpAddr::from([198, 51, 100, 1])));
    }

    #[test]
    fn a_proxy_is_a_network_an_address_or_unix() {
        for text in ["10.0.0.0/8", "2001:db8::/32", "192.0.2.1/32", "unix"] {
            assert_eq!(text.parse::<TrustedProxy>().expect(text).to_string(), text);
        }
        for wrong in ["", "10.0.0.0/33", "10.0.0", "proxy.example", "10.0.0.1:80", "Unix"] {
            let allowed = wrong.parse::<TrustedProxy>().expect_err(wrong);
            assert!(allowed.contains("10.0.0.0/8"), "{allowed}");
        }
    }
}
