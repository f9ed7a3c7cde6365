//! Which heads are plain, and the requests that they are.
//!
//! Strictness is safety: a head is plain where every parser of HTTP/1.1 reads the same from each
//! of its bytes (RFC 9112 sections 2.2, 3 and 5). Nothing is decided about any other; hyper gets
//! its bytes as they came.

use bytes::BytesMut;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};
use memchr::memchr;

use crate::body::Incoming;
use crate::conformance::is_host;
use crate::settings::Limits;

/// How a plain request line ends.
const VERSION: &[u8] = b" HTTP/1.1";

/// Where the parts of a plain head are; used again for the next.
#[derive(Debug, Default)]
pub(super) struct Head {
    method: Method,
    target: Part,
    fields: Vec<(Part, Part)>,
    /// Bytes of it, with the empty line at its end.
    pub(super) length: usize,
}

/// A part of a head: from one byte up to another.
type Part = (usize, usize);

impl Head {
    /// Finds the plain head that `bytes` begin with. `None`: it is another's business, or not
    /// complete.
    pub(super) fn read(&mut self, bytes: &[u8], limits: &Limits) -> Option<()> {
        let bytes = &bytes[..bytes.len().min(limits.header_bytes)];
        let mut next = self.request_line(line(bytes, 0)?, limits)?;
        self.fields.clear();
        let mut host = false;
        loop {
            let line = line(bytes, next)?;
            let begin = next;
            next += line.len() + 2;
            if line.is_empty() {
                self.length = next;
                // RFC 9112 section 3.2: there is exactly one.
                return host.then_some(());
            }
            let colon = memchr(b':', line)?;
            let space = usize::from(line.get(colon + 1) == Some(&b' '));
            let (name, value) = (&line[..colon], &line[colon + 1 + space..]);
            if is_padded(value) || self.fields.len() == limits.headers {
                return None;
            }
            match meaning(name) {
                Meaning::Host if host || !is_host(value) => return None,
                Meaning::Host => host = true,
                Meaning::Connection if !value.eq_ignore_ascii_case(b"keep-alive") => return None,
                Meaning::Connection | Meaning::End => {}
                Meaning::Message => return None,
            }
            let value = (begin + colon + 1 + space, begin + line.len());
            self.fields.push(((begin, begin + colon), value));
        }
    }

    /// Reads the request line; where the fields begin.
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

    /// The request whose head was found at the beginning of `bytes`, which are copied once, to
    /// `memory`. `None`: a name or a value has bytes that are not plain.
    pub(super) fn request(
        &self,
        bytes: &[u8],
        memory: &mut BytesMut,
        mut fields: HeaderMap,
    ) -> Option<Request<Incoming>> {
        memory.extend_from_slice(&bytes[..self.length]);
        let head = memory.split().freeze();
        let part = |(from, to): Part| head.slice(from..to);
        let target = PathAndQuery::from_maybe_shared(part(self.target)).ok()?;
        fields.reserve(self.fields.len());
        for &((begin, end), value) in &self.fields {
            let name = HeaderName::from_bytes(&head[begin..end]).ok()?;
            fields.append(name, HeaderValue::from_maybe_shared(part(value)).ok()?);
        }
        let mut request = Request::new(Incoming::empty());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = Uri::from(target);
        *request.version_mut() = Version::HTTP_11;
        *request.headers_mut() = fields;
        Some(request)
    }
}

/// The line that begins at `from`, without its end, which is CRLF and nothing else.
fn line(bytes: &[u8], from: usize) -> Option<&[u8]> {
    let rest = &bytes[from..];
    rest[..memchr(b'\n', rest)?].strip_suffix(b"\r")
}

/// Whether white space is at either end of a value, or bytes are in it that parsers may read
/// otherwise: parsers differ in what they strip and replace (RFC 9110 section 5.5).
fn is_padded(value: &[u8]) -> bool {
    let odd = value.iter().fold(false, |odd, byte| odd | !(b' '..=b'~').contains(byte));
    odd || value.first() == Some(&b' ') || value.last() == Some(&b' ')
}

/// What a field says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Something for the service alone.
    End,
    Host,
    Connection,
    /// How the message goes on, or the connection.
    Message,
}

fn meaning(name: &[u8]) -> Meaning {
    let known: &[(&[u8], Meaning)] = match name.len() {
        2 => &[(b"te", Meaning::Message)],
        4 => &[(b"host", Meaning::Host)],
        6 => &[(b"expect", Meaning::Message)],
        7 => &[(b"upgrade", Meaning::Message), (b"trailer", Meaning::Message)],
        10 => &[(b"connection", Meaning::Connection)],
        14 => &[(b"content-length", Meaning::Message)],
        17 => &[(b"transfer-encoding", Meaning::Message)],
        _ => return Meaning::End,
    };
    let found = known.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
    found.map_or(Meaning::End, |(_, meaning)| *meaning)
}

/// The methods that a plain request may have.
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
    use super::*;

    fn read(bytes: &[u8]) -> Option<(Request<Incoming>, usize)> {
        let mut head = Head::default();
        head.read(bytes, &Limits { headers: 3, uri_bytes: 20, ..Limits::default() })?;
        let request = head.request(bytes, &mut BytesMut::new(), HeaderMap::new());
        request.map(|request| (request, head.length))
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
    fn what_is_cut_anywhere_is_not_plain_yet() {
        let whole = b"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n";
        assert!(read(whole).is_some());
        for at in 0..whole.len() {
            assert!(read(&whole[..at]).is_none(), "{at}");
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
