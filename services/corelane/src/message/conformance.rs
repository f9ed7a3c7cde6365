//! Request checks that are possible after hyper has parsed the request.

use std::net::Ipv6Addr;

use bytes::Bytes;
use http::header::{CONNECTION, COOKIE, EXPECT, HOST, HeaderValue, TRANSFER_ENCODING};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, Method, Request, StatusCode, Version};
use http_body::Body;
#[cfg(feature = "http2")]
use hyper::ext::Protocol;
use hyper::upgrade::OnUpgrade;

use crate::message::problem::Problem;

/// The reason to reject a request, if any. Otherwise sets Host to the requested authority: an
/// absolute target replaces the header (RFC 9112 section 3.2.2). For HTTP/2, [`set_host`] does
/// this. `secure` means that the request arrived over TLS.
pub(crate) fn refusal<B: Body>(request: &mut Request<B>, secure: bool) -> Option<Problem> {
    if request.version() < Version::HTTP_2 {
        // Only a chunked body lacks an exact length at this point.
        let chunked =
            !request.body().is_end_stream() && request.body().size_hint().exact().is_none();
        if chunked && let Some(problem) = codings(request.headers()) {
            return Some(problem);
        }
        if let Some(problem) = host(request).or_else(|| target(request, secure)) {
            return Some(problem);
        }
    } else {
        join_cookies(request.headers_mut());
        if let Some(problem) = authority(request).or_else(|| asterisk(request)) {
            return Some(problem);
        }
    }
    method(request).or_else(|| expectation(request.headers()))
}

/// Closes the connection, because the end of this message is uncertain.
fn closing(problem: Problem) -> Problem {
    problem.header(CONNECTION, HeaderValue::from_static("close"))
}

/// RFC 9112 section 6.1: `chunked` must be the only coding, because no other coding is implemented.
fn codings(headers: &HeaderMap) -> Option<Problem> {
    let values = headers.get_all(TRANSFER_ENCODING).iter();
    let names = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    let (mut chunked, mut unknown, mut empty) = (0, false, false);
    for name in names.map(<[u8]>::trim_ascii) {
        if name.eq_ignore_ascii_case(b"chunked") {
            chunked += 1;
        } else if name.is_empty() {
            empty = true;
        } else {
            unknown = true;
        }
    }
    if unknown {
        let problem = Problem::from(StatusCode::NOT_IMPLEMENTED);
        return Some(closing(problem.detail("the only supported transfer coding is chunked")));
    }
    (chunked != 1 || empty).then(|| {
        let problem = Problem::new(StatusCode::BAD_REQUEST, "ambiguous-framing");
        closing(problem.detail("Transfer-Encoding must be chunked, given once"))
    })
}

/// RFC 9112 section 3.2: exactly one valid Host, which is optional in HTTP/1.0.
fn host<B>(request: &Request<B>) -> Option<Problem> {
    let headers = request.headers();
    // Most requests do not repeat any field, and it is cheaper to check this than to check a single
    // field.
    let twice = headers.len() > headers.keys_len() && headers.get_all(HOST).iter().count() > 1;
    let detail = match headers.get(HOST) {
        Some(value) if !twice && is_host(value.as_bytes()) => return None,
        None if request.version() < Version::HTTP_11 => return None,
        Some(_) if !twice => "the value of Host is not a host and an optional port",
        _ => "an HTTP/1.1 request needs exactly one Host field",
    };
    Some(Problem::new(StatusCode::BAD_REQUEST, "host").detail(detail))
}

/// Whether this is `uri-host [":" port]` (RFC 9110 section 7.2, RFC 3986 section 3.2.2), which may
/// be empty.
pub(crate) fn is_host(value: &[u8]) -> bool {
    // Fast path for common hosts.
    let plain = value.iter().position(|&byte| !is_plain(byte)).unwrap_or(value.len());
    match &value[plain..] {
        [] => return true,
        [b':', digits @ ..] => return digits.iter().all(u8::is_ascii_digit),
        _ => {}
    }
    let (is_name, port) = match value {
        [b'[', rest @ ..] => match rest.iter().position(|&byte| byte == b']') {
            Some(end) => (is_ip_literal(&rest[..end]), &rest[end + 1..]),
            None => return false,
        },
        _ => {
            let end = value.iter().position(|&byte| byte == b':').unwrap_or(value.len());
            (is_name(&value[..end]), &value[end..])
        }
    };
    let is_port = match port {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    is_name && is_port
}

fn is_ip_literal(inside: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(inside) else { return false };
    match text.strip_prefix(['v', 'V']).and_then(|future| future.split_once('.')) {
        Some((version, address)) => {
            let is_version = !version.is_empty() && version.bytes().all(|b| b.is_ascii_hexdigit());
            is_version && !address.is_empty() && address.bytes().all(|b| b == b':' || is_plain(b))
        }
        None => text.parse::<Ipv6Addr>().is_ok(),
    }
}

/// A `reg-name`, which includes IPv4 addresses.
fn is_name(name: &[u8]) -> bool {
    let mut rest = name;
    loop {
        rest = match rest {
            [] => return true,
            [b'%', a, b, after @ ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => after,
            [byte, after @ ..] if is_plain(*byte) => after,
            _ => return false,
        };
    }
}

/// `unreserved` or `sub-delims` (RFC 3986 section 2).
fn is_plain(byte: u8) -> bool {
    PLAIN[usize::from(byte)]
}

/// A lookup table, because every request has a Host.
const PLAIN: [bool; 256] = letters_digits_and(b"-._~!$&'()*+,;=");

pub(crate) const fn letters_digits_and(marks: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut mark = 0;
    while mark < marks.len() {
        table[marks[mark] as usize] = true;
        mark += 1;
    }
    table
}

/// RFC 9112 section 3.2: request target forms allowed for each method.
fn target<B>(request: &mut Request<B>, secure: bool) -> Option<Problem> {
    let uri = request.uri();
    let is_connect = request.method() == Method::CONNECT;
    let wrong = match (uri.scheme(), uri.authority()) {
        _ if is_connect => {
            let is_authority = uri.scheme().is_none() && uri.port().is_some();
            (!is_authority).then_some("the target of CONNECT is a host and a port")
        }
        (None, None) => return asterisk(request),
        (Some(scheme), Some(authority)) => {
            return absolute(&scheme.clone(), &authority.clone(), request, secure);
        }
        _ => Some("the target is neither a path nor an absolute URI"),
    };
    wrong.map(wrong_target)
}

fn asterisk<B>(request: &Request<B>) -> Option<Problem> {
    let wrong = request.uri().path() == "*" && request.method() != Method::OPTIONS;
    wrong.then(|| wrong_target("the target * is valid for OPTIONS only"))
}

fn wrong_target(detail: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "request-target").detail(detail)
}

/// RFC 9112 section 3.2.2: the authority of an absolute target is the host.
fn absolute<B>(
    scheme: &Scheme,
    authority: &Authority,
    request: &mut Request<B>,
    secure: bool,
) -> Option<Problem> {
    if *scheme == Scheme::HTTPS && !secure {
        // RFC 9110 section 7.4: https requests must arrive over TLS.
        return Some(Problem::from(StatusCode::MISDIRECTED_REQUEST));
    }
    if *scheme != Scheme::HTTP && *scheme != Scheme::HTTPS {
        return Some(wrong_target("the scheme of the target is neither http nor https"));
    }
    // RFC 9110 section 4.2.4: user information is an error.
    match HeaderValue::from_str(authority.as_str()) {
        Ok(value) if is_host(value.as_bytes()) && !authority.host().is_empty() => {
            request.headers_mut().insert(HOST, value);
            None
        }
        _ => Some(wrong_target("the authority of the target is not a host and an optional port")),
    }
}

/// RFC 9113 section 8.2.3: HTTP/2 may split a cookie for better compression, but services expect a
/// single field.
fn join_cookies(headers: &mut HeaderMap) {
    // Most requests do not repeat any field.
    if headers.len() == headers.keys_len() {
        return;
    }
    let pieces: Vec<_> = headers.get_all(COOKIE).iter().collect();
    if pieces.len() < 2 {
        return;
    }
    let is_sensitive = pieces.iter().any(|piece| piece.is_sensitive());
    let pieces: Vec<_> = pieces.into_iter().map(HeaderValue::as_bytes).collect();
    // Joining valid values produces a valid value.
    if let Ok(mut cookie) = HeaderValue::from_maybe_shared(Bytes::from(pieces.join(&b"; "[..]))) {
        cookie.set_sensitive(is_sensitive);
        headers.insert(COOKIE, cookie);
    }
}

/// RFC 9113 section 8.3.1: `:authority` plays the role of HTTP/1.1's Host, so it is copied to Host
/// for the service. Call this after checking the size of the header.
pub(crate) fn set_host<B>(request: &mut Request<B>) {
    if request.headers().contains_key(HOST) {
        return;
    }
    let host = request.uri().authority().map(|host| HeaderValue::from_str(host.as_str()));
    if let Some(Ok(host)) = host {
        request.headers_mut().insert(HOST, host);
    }
}

/// RFC 9113 section 8.3.1: a Host that differs from `:authority` makes a request malformed. Both
/// values must be a host with an optional port and no user information.
fn authority<B>(request: &Request<B>) -> Option<Problem> {
    let mut hosts = request.headers().get_all(HOST).iter().map(HeaderValue::as_bytes);
    let (host, more) = (hosts.next(), hosts.next().is_some());
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let differs = |authority: &[u8]| host.is_some_and(|host| !host.eq_ignore_ascii_case(authority));
    let detail = if more {
        "there is more than one Host field"
    } else if authority.is_some_and(differs) {
        "Host differs from :authority"
    } else if !authority.or(host).is_none_or(is_host) {
        "the value of :authority or Host is not a host and an optional port"
    } else {
        return None;
    };
    Some(Problem::new(StatusCode::BAD_REQUEST, "host").detail(detail))
}

/// RFC 9110 section 15.6.2: an origin server does not offer tunnels. TRACE would expose headers
/// that browsers hide from scripts (section 9.3.8).
fn method<B>(request: &Request<B>) -> Option<Problem> {
    match *request.method() {
        Method::CONNECT if is_extended_connect(request) => None,
        // The bytes after the request may be meant for the tunnel.
        Method::CONNECT => Some(closing(Problem::from(StatusCode::NOT_IMPLEMENTED))),
        Method::TRACE => Some(Problem::from(StatusCode::NOT_IMPLEMENTED)),
        _ => None,
    }
}

/// Whether the request switches its HTTP/2 stream to another protocol (RFC 8441 section 4).
#[cfg(feature = "http2")]
fn is_extended_connect<B>(request: &Request<B>) -> bool {
    request.method() == Method::CONNECT && request.extensions().get::<Protocol>().is_some()
}

#[cfg(not(feature = "http2"))]
fn is_extended_connect<B>(_: &Request<B>) -> bool {
    false
}

/// Whether the service may switch protocols. If not, removes hyper's offer. Connection must list
/// the upgrade (RFC 9110 section 7.8), because a proxy that does not know the upgrade drops only
/// the fields listed there. A request with a body cannot be upgraded, because HTTP defines where
/// the body ends.
pub(crate) fn offers_upgrade<B: Body>(request: &mut Request<B>) -> bool {
    if request.extensions().get::<OnUpgrade>().is_none() {
        return false;
    }
    let named = || {
        let values = request.headers().get_all(CONNECTION).iter();
        let mut options = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
        options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"upgrade"))
    };
    let offered = match request.version() {
        Version::HTTP_2 => is_extended_connect(request),
        _ => request.body().is_end_stream() && named(),
    };
    if !offered {
        request.extensions_mut().remove::<OnUpgrade>();
    }
    offered
}

/// RFC 9110 section 10.1.1: only `100-continue` is supported.
fn expectation(headers: &HeaderMap) -> Option<Problem> {
    if !headers.contains_key(EXPECT) {
        return None;
    }
    let mut values = headers.get_all(EXPECT).iter();
    let met = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    (!values.all(met)).then(|| {
        let problem = Problem::from(StatusCode::EXPECTATION_FAILED);
        problem.detail("the only supported expectation is 100-continue")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_what_rfc_3986_says() {
        let valid = [
            "",
            "a",
            "a:80",
            "a:",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:80",
            "[v1.a:b]",
            "a_b.example",
            "a%20b",
            "a,b",
        ];
        for host in valid {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        let invalid = [
            "a b", "a@b", "a/b", "a?b", "a#b", "a:x", "a:80:80", "[::1", "[::g]", "[]", "[v.a]",
            "[::1]a", "%2", "%zz", "a\\b", "a\"", "\u{e9}", "a:-1", "[v1.]",
        ];
        for host in invalid {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }
}
