//! Parses plain heads into requests.
//!
//! The parser is strict for safety. A head is plain if every HTTP/1.1 parser reads each of its
//! bytes in the same way (RFC 9112 sections 2.2, 3 and 5). All other heads are passed to hyper
//! unchanged.

use std::mem;

use bytes::{Bytes, BytesMut};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};
use memchr::memchr;

use super::names::Names;
use crate::body::Incoming;
use crate::conformance::is_host;
use crate::settings::Limits;

/// The end of a plain request line.
const VERSION: &[u8] = b" HTTP/1.1";

/// The parts of a plain head and their positions. Reused.
#[derive(Debug, Default)]
pub(super) struct Head {
    method: Method,
    target: Part,
    fields: Vec<(HeaderName, Part)>,
    names: Names,
    /// Length in bytes, including the empty line.
    length: usize,
    /// Bytes of the body that follows.
    body: usize,
}

/// A range of a head: start and end.
type Part = (usize, usize);

impl Head {
    /// Parses the plain request at the start of `bytes` and returns its length. `None`: it is not
    /// plain or not complete.
    pub(super) fn read(&mut self, bytes: &[u8], limits: &Limits) -> Option<usize> {
        self.head(&bytes[..bytes.len().min(limits.header_bytes)], limits)?;
        let whole = self.length + self.body;
        let plain = self.body as u64 <= limits.body_bytes && whole <= bytes.len();
        plain.then_some(whole)
    }

    fn head(&mut self, bytes: &[u8], limits: &Limits) -> Option<()> {
        let mut next = self.request_line(line(bytes, 0)?, limits)?;
        self.fields.clear();
        let (mut host, mut body) = (false, None);
        loop {
            let line = line(bytes, next)?;
            let begin = next;
            next += line.len() + 2;
            if line.is_empty() {
                self.length = next;
                self.body = body.unwrap_or(0);
                // RFC 9112 section 3.2: exactly one Host. Section 6.3: any request may have a body,
                // but with other methods that is rare, and parsers differ.
                let plain = host && (body.is_none() || self.may_have_body());
                return plain.then_some(());
            }
            let colon = memchr(b':', line)?;
            let space = usize::from(line.get(colon + 1) == Some(&b' '));
            let (name, value) = (&line[..colon], &line[colon + 1 + space..]);
            if is_padded(value) || self.fields.len() == limits.headers {
                return None;
            }
            let (name, meaning) = self.names.read(name)?;
            match meaning {
                Meaning::Host if host || !is_host(value) => return None,
                Meaning::Host => host = true,
                Meaning::Connection if !value.eq_ignore_ascii_case(b"keep-alive") => return None,
                Meaning::Length if body.is_some() => return None,
                Meaning::Length => body = Some(length(value)?),
                Meaning::Connection | Meaning::End => {}
                Meaning::Message => return None,
            }
            self.fields.push((name, (begin + colon + 1 + space, begin + line.len())));
        }
    }

    /// Parses the request line. Returns the start of the fields.
    fn request_line(&mut self, line: &[u8], limits: &Limits) -> Option<usize> {
        let rest = line.strip_suffix(VERSION)?;
        let space = memchr(b' ', rest)?;
        self.method = method(&rest[..space])?;
        let target = &rest[space + 1..];
        let plain = target.first() == Some(&b'/')
            && target.len() <= limits.uri_bytes
            && target.iter().all(|&byte| TARGET[usize::from(byte)]);
        self.target = (space + 1, rest.len());
        plain.then_some(line.len() + 2)
    }

    fn may_have_body(&self) -> bool {
        matches!(self.method, Method::POST | Method::PUT | Method::PATCH)
    }

    /// The request at the start of `bytes`, which are copied once, to `memory`. `None`: a value has
    /// bytes that are not plain.
    pub(super) fn request(
        &mut self,
        bytes: &[u8],
        memory: &mut BytesMut,
        mut fields: HeaderMap,
    ) -> Option<Request<Incoming>> {
        let whole = self.length + self.body;
        memory.extend_from_slice(&bytes[..whole]);
        let bytes = memory.split().freeze();
        let part = |(from, to): Part| bytes.slice(from..to);
        let target = PathAndQuery::from_maybe_shared(part(self.target)).ok()?;
        fields.reserve(self.fields.len());
        for (name, value) in self.fields.drain(..) {
            fields.append(name, HeaderValue::from_maybe_shared(part(value)).ok()?);
        }
        let body = if self.body == 0 { Bytes::new() } else { part((self.length, whole)) };
        let mut request = Request::new(Incoming::whole(body));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = Uri::from(target);
        *request.version_mut() = Version::HTTP_11;
        // The replaced map is empty, and its destructor would cost more than replacing it.
        mem::forget(mem::replace(request.headers_mut(), fields));
        Some(request)
    }
}

/// The line that starts at `from`, without its end, which must be CRLF.
fn line(bytes: &[u8], from: usize) -> Option<&[u8]> {
    let rest = &bytes[from..];
    rest[..memchr(b'\n', rest)?].strip_suffix(b"\r")
}

/// Whether a value starts or ends with whitespace, or contains bytes that parsers strip or replace
/// differently (RFC 9110 section 5.5).
fn is_padded(value: &[u8]) -> bool {
    let odd = value.iter().fold(false, |odd, byte| odd | !(b' '..=b'~').contains(byte));
    odd || value.first() == Some(&b' ') || value.last() == Some(&b' ')
}

/// A Content-Length that every parser reads in the same way: digits without a leading 0 (RFC 9110
/// section 8.6). A larger number exceeds what one read returns.
fn length(value: &[u8]) -> Option<usize> {
    let plain = matches!(value, [b'0'] | [b'1'..=b'9', ..]) && value.len() <= 9;
    if !plain || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(value.iter().fold(0, |length, digit| 10 * length + usize::from(digit - b'0')))
}

/// The meaning of a field for the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// No meaning; only the service uses it.
    End,
    Host,
    Connection,
    /// The length of the body.
    Length,
    /// Changes how the message or the connection continues.
    Message,
}

impl Meaning {
    pub(super) fn of(name: &[u8]) -> Meaning {
        let known: &[(&[u8], Meaning)] = match name.len() {
            2 => &[(b"te", Meaning::Message)],
            4 => &[(b"host", Meaning::Host)],
            6 => &[(b"expect", Meaning::Message)],
            7 => &[(b"upgrade", Meaning::Message), (b"trailer", Meaning::Message)],
            10 => &[(b"connection", Meaning::Connection)],
            14 => &[(b"content-length", Meaning::Length)],
            17 => &[(b"transfer-encoding", Meaning::Message)],
            _ => return Meaning::End,
        };
        let found = known.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
        found.map_or(Meaning::End, |(_, meaning)| *meaning)
    }
}

/// The methods of plain requests.
fn method(token: &[u8]) -> Option<Method> {
    Some(match token {
        b"GET" => Method::GET,
        b"HEAD" => Method::HEAD,
        b"POST" => Method::POST,
        b"PUT" => Method::PUT,
        b"DELETE" => Method::DELETE,
        b"OPTIONS" => Method::OPTIONS,
        b"PATCH" => Method::PATCH,
        _ => return None,
    })
}

/// Bytes of a path or a query (RFC 3986 sections 3.3 and 3.4).
const TARGET: [bool; 256] = {
    let marks = b"-._~!$&'()*+,;=:@/?%";
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        plain[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut mark = 0;
    while mark < marks.len() {
        plain[marks[mark] as usize] = true;
        mark += 1;
    }
    plain
};

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use http_body::Body;
    use http_body_util::BodyExt;

    use super::*;

    fn read(bytes: &[u8]) -> Option<(Request<Incoming>, usize)> {
        let mut head = Head::default();
        let limits = Limits { headers: 3, uri_bytes: 20, body_bytes: 10, ..Limits::default() };
        let length = head.read(bytes, &limits)?;
        let request = head.request(bytes, &mut BytesMut::new(), HeaderMap::new());
        request.map(|request| (request, length))
    }

    #[test]
    fn a_plain_head_is_read_to_its_end() {
        let first =
            "POST /a/b?c=%20 HTTP/1.1\r\nHost: h:80\r\nA:b\r\nCONNECTION: Keep-Alive\r\n\r\n";
        let (request, length) = read(format!("{first}GET").as_bytes()).expect("plain");
        assert_eq!(length, first.len());
        assert_eq!((request.method(), request.version()), (&Method::POST, Version::HTTP_11));
        assert_eq!(request.uri(), "/a/b?c=%20");
        let fields: Vec<_> = request.headers().iter().collect();
        assert_eq!(fields.len(), 3);
        assert_eq!(request.headers()["host"], "h:80");
        assert_eq!(request.headers()["a"], "b");
    }

    #[test]
    fn a_body_of_a_length_is_a_part_of_its_request() {
        for (length, body) in [("0", ""), ("3", "abc"), ("10", "0123456789")] {
            let head = format!("PUT / HTTP/1.1\r\nHost: h\r\ncontent-length:{length}\r\n\r\n");
            let (request, whole) = read(format!("{head}{body}GET").as_bytes()).expect("plain");
            assert_eq!(whole, head.len() + body.len());
            assert_eq!(request.headers()["content-length"], length);
            let came = request.into_body();
            assert_eq!(
                (came.size_hint().exact(), came.is_end_stream()),
                (Some(body.len() as u64), body.is_empty())
            );
            let mut came = Box::pin(came.collect());
            let Poll::Ready(came) = came.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            else {
                panic!("all of it is there")
            };
            assert_eq!(came.expect("a body").to_bytes(), body);
        }
    }

    #[test]
    fn what_is_cut_anywhere_is_not_plain_yet() {
        let get: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n";
        let post = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody";
        for whole in [get, post] {
            assert!(read(whole).is_some());
            for at in 0..whole.len() {
                assert!(read(&whole[..at]).is_none(), "{at}");
            }
        }
    }

    #[test]
    fn a_length_that_another_parser_may_read_otherwise_is_not_plain() {
        let lengths = [
            "",
            "+3",
            "-3",
            "03",
            "0x3",
            "3,3",
            "3 3",
            "3.0",
            "3a",
            " 3",
            "3 ",
            "1000000000",
            "11",
        ];
        for length in lengths {
            let head = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n");
            assert!(read(format!("{head}{}", "a".repeat(20)).as_bytes()).is_none(), "{length:?}");
        }
        let with = |method: &str, fields: &str| {
            let head = format!("{method} / HTTP/1.1\r\nHost: h\r\n{fields}\r\nabc");
            read(head.as_bytes()).is_some()
        };
        assert!(with("POST", "Content-Length: 3\r\n") && with("PATCH", "Content-Length: 3\r\n"));
        assert!(!with("POST", "Content-Length: 3\r\nContent-Length: 3\r\n"));
        assert!(!with("POST", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"));
        for method in ["GET", "HEAD", "DELETE", "OPTIONS"] {
            assert!(!with(method, "Content-Length: 3\r\n"), "{method}");
        }
    }

    #[test]
    fn whatever_another_parser_may_read_otherwise_is_not_plain() {
        let lines = [
            "get / HTTP/1.1",
            "BREW / HTTP/1.1",
            "CONNECT h:80 HTTP/1.1",
            "TRACE / HTTP/1.1",
            "GET  / HTTP/1.1",
            "GET /  HTTP/1.1",
            "GET / HTTP/1.1 ",
            "GET / HTTP/1.0",
            "GET / HTTP/1.2",
            "GET /",
            "GET * HTTP/1.1",
            "GET http://h/ HTTP/1.1",
            "GET /a#b HTTP/1.1",
            "GET /a\\b HTTP/1.1",
            "GET /\u{e9} HTTP/1.1",
            "GET /a\tb HTTP/1.1",
            "GET /aaaaaaaaaaaaaaaaaaaa HTTP/1.1",
            "\r\nGET / HTTP/1.1",
            " GET / HTTP/1.1",
        ];
        for line in lines {
            let head = format!("{line}\r\nHost: h\r\n\r\n");
            assert!(read(head.as_bytes()).is_none(), "{line:?}");
        }
        let fields = [
            "",
            "Host: h\r\nHost: h\r\n",
            "Host: h h\r\n",
            "Host: h@h\r\n",
            "Host : h\r\n",
            "Host:  h\r\n",
            "Host:\th\r\n",
            "Host: h \r\n",
            "Host: h\n",
            "Host: h\r\nA: b\r\n\tc\r\n",
            "Host: h\r\nA: b\r\n c\r\n",
            "Host: h\r\n c\r\n",
            "Host: h\r\nA: b\rc\r\n",
            "Host: h\r\nA: b\0c\r\n",
            "Host: h\r\nA: \u{e9}\r\n",
            "Host: h\r\nA b: c\r\n",
            "Host: h\r\nA\r\n",
            "Host: h\r\n: b\r\n",
            "Host: h\r\nA(: b\r\n",
            "Host: h\r\nContent-Length: 0\r\n",
            "Host: h\r\ntransfer-Encoding: chunked\r\n",
            "Host: h\r\nExpect: 100-continue\r\n",
            "Host: h\r\nUpgrade: h2c\r\n",
            "Host: h\r\nTE: trailers\r\n",
            "Host: h\r\nTrailer: a\r\n",
            "Host: h\r\nConnection: close\r\n",
            "Host: h\r\nConnection: keep-alive, a\r\n",
            "Host: h\r\nA: b\r\nC: d\r\nE: f\r\n",
        ];
        for fields in fields {
            let head = format!("GET / HTTP/1.1\r\n{fields}\r\n");
            assert!(read(head.as_bytes()).is_none(), "{fields:?}");
        }
    }
}
