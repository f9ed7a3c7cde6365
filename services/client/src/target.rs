//! Where a called service is.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use http::uri::Authority;

/// Where a called service is, as a URL.
///
/// | URL | endpoints |
/// |---|---|
/// | `http://orders.shop:8080` | the addresses of the name, such as a headless Service `orders` in the namespace `shop`, and this port |
/// | `http://_http._tcp.orders.shop.svc.cluster.local` | the SRV records of the name, with their ports |
/// | `http://127.0.0.1:8081,127.0.0.1:8082` | these addresses |
///
/// `http` means HTTP/1.1, `h2c` HTTP/2 without TLS, `https` HTTP/1.1 over TLS, and `h2` HTTP/2 over
/// TLS. gRPC needs HTTP/2.
///
/// ```
/// use corelane_client::Target;
///
/// let orders: Target = "http://orders.shop:8080".parse().expect("a URL");
/// assert_eq!(orders.to_string(), "http://orders.shop:8080");
/// assert!("http://orders.shop/path".parse::<Target>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub(crate) scheme: Scheme,
    pub(crate) place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    H2c,
    Https,
    H2,
}

impl Scheme {
    const ALL: [(Scheme, &str); 4] = [
        (Scheme::Http, "http"),
        (Scheme::H2c, "h2c"),
        (Scheme::Https, "https"),
        (Scheme::H2, "h2"),
    ];

    pub(crate) fn is_tls(self) -> bool {
        matches!(self, Scheme::Https | Scheme::H2)
    }

    pub(crate) fn is_http2(self) -> bool {
        matches!(self, Scheme::H2c | Scheme::H2)
    }

    fn port(self) -> u16 {
        if self.is_tls() { 443 } else { 80 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A and AAAA records.
    Name {
        host: String,
        port: u16,
        authority: Authority,
    },
    /// SRV records.
    Service {
        host: String,
        authority: Authority,
    },
    Fixed(Vec<SocketAddr>),
}

const EXPECTED: &str = "a URL such as http://SERVICE.NAMESPACE:PORT, or http:// and addresses with \
                        ports, separated by commas; the schemes are http, h2c, https and h2";

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| EXPECTED.to_owned())
    }
}

fn parse(text: &str) -> Option<Target> {
    let (scheme, rest) = text.split_once("://")?;
    let (scheme, _) = Scheme::ALL.into_iter().find(|(_, name)| *name == scheme)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let fixed = rest.split(',').map(|address| address.trim().parse()).collect::<Result<_, _>>();
    if let Ok(addresses) = fixed {
        return Some(Target { scheme, place: Place::Fixed(addresses) });
    }
    let authority: Authority = rest.parse().ok()?;
    let host = authority.host().to_owned();
    let port = authority.port_u16();
    // A port that is not a number leaves its colon.
    let whole = port.map_or(host.clone(), |port| format!("{host}:{port}"));
    let label = |label: &str| {
        let of_label = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && label.len() <= 63 && label.bytes().all(of_label)
    };
    if whole != rest || !host.trim_end_matches('.').split('.').all(label) {
        return None;
    }
    let place = match host.starts_with('_') {
        // RFC 6761 section 6.3. DNS servers do not know this name.
        _ if host == "localhost" => {
            Place::Fixed(vec![SocketAddr::from(([127, 0, 0, 1], port.unwrap_or(scheme.port())))])
        }
        true if port.is_some() => return None,
        true => Place::Service { authority: service_of(&host)?, host },
        false => Place::Name { host, port: port.unwrap_or(scheme.port()), authority },
    };
    Some(Target { scheme, place })
}

/// The name without the port and protocol of an SRV record.
fn service_of(host: &str) -> Option<Authority> {
    host.split('.')
        .skip_while(|label| label.starts_with('_'))
        .collect::<Vec<_>>()
        .join(".")
        .parse()
        .ok()
}

impl Target {
    /// Scheme and authority of requests to an endpoint.
    pub(crate) fn origin(&self, endpoint: SocketAddr) -> (http::uri::Scheme, Authority) {
        let is_tls = self.scheme.is_tls();
        let scheme = if is_tls { http::uri::Scheme::HTTPS } else { http::uri::Scheme::HTTP };
        let authority = match &self.place {
            Place::Name { authority, .. } | Place::Service { authority, .. } => authority.clone(),
            Place::Fixed(_) => endpoint.to_string().parse().expect("an address is an authority"),
        };
        (scheme, authority)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Scheme::ALL.into_iter().find(|(scheme, _)| *scheme == self.scheme);
        write!(f, "{}://", name.map_or("", |(_, name)| name))?;
        match &self.place {
            Place::Name { authority, .. } => write!(f, "{authority}"),
            Place::Service { host, .. } => write!(f, "{host}"),
            Place::Fixed(addresses) => {
                let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
                f.write_str(&addresses.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_parsed_and_shown() {
        for text in [
            "http://orders.shop:8080",
            "https://orders.shop.svc.cluster.local",
            "h2c://_grpc._tcp.orders.shop.svc.cluster.local",
            "http://127.0.0.1:8081,[::1]:8082",
        ] {
            assert_eq!(
                text.parse::<Target>().map(|target| target.to_string()).as_deref(),
                Ok(text)
            );
        }
        let target: Target = "https://orders.shop/".parse().expect("valid");
        assert!(matches!(target.place, Place::Name { port: 443, .. }));
        let target: Target = "http://_http._tcp.orders.shop".parse().expect("valid");
        let endpoint = "10.0.0.1:80".parse().expect("an address");
        assert_eq!(target.origin(endpoint).1.as_str(), "orders.shop");
    }

    #[test]
    fn other_texts_are_rejected() {
        for text in [
            "",
            "orders:80",
            "ftp://a",
            "http://",
            "http://a b",
            "http://a:x",
            "http://u@a",
            "http://a/p",
            "http://a?q",
            "http://a:1,b:2",
            "http://_http._tcp.a:80",
            "http://a..b",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
