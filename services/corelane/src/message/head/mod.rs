//! Parses plain heads into requests.
//!
//! Strict for safety: a head is plain if every HTTP/1.1 parser reads each of its bytes the same way
//! (RFC 9112 sections 2.2, 3 and 5). All other heads go to hyper unchanged.

use std::mem;

use bytes::{Bytes, BytesMut};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};
use memchr::memchr;

use crate::base::settings::Limits;
use crate::message::conformance::{is_host, letters_digits_and};

const VERSION: &[u8] = b" HTTP/1.1";

/// Parts of a plain head and their positions. Reuses its memory.
#[derive(Debug, Default)]
pub(crate) struct Head {
    method: Method,
    target: Range,
    fields: Vec<(HeaderName, Range)>,
    names: Names,
    /// Length in bytes, including the empty line.
    length: usize,
    body: usize,
}

type Range = (usize, usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A plain request, with the lengths of its head and body.
    Plain {
        head: usize,
        body: usize,
    },
    Partial,
    Other,
}

impl Head {
    /// Determines what `bytes` start with. `bytes` must not be empty.
    pub(crate) fn read(&mut self, bytes: &[u8], limits: &Limits) -> Found {
        match self.head(&bytes[..bytes.len().min(limits.header_bytes)], limits) {
            Ok(()) if self.body as u64 <= limits.body_bytes => {
                Found::Plain { head: self.length, body: self.body }
            }
            Err(Odd::Short) if bytes.len() < limits.header_bytes => Found::Partial,
            _ => Found::Other,
        }
    }

    fn head(&mut self, bytes: &[u8], limits: &Limits) -> Result<(), Odd> {
        let mut next = match line(bytes, 0) {
            Err(Odd::Short) if !may_begin(bytes) => return Err(Odd::Other),
            line => self.request_line(line?, limits).ok_or(Odd::Other)?,
        };
        self.fields.clear();
        let (mut host, mut body) = (false, None);
        loop {
            let line = match line(bytes, next) {
                Err(Odd::Short) if !may_begin_field(&bytes[next..]) => return Err(Odd::Other),
                line => line?,
            };
            let begin = next;
            next += line.len() + 2;
            if line.is_empty() {
                self.length = next;
                self.body = body.unwrap_or(0);
                // RFC 9112 section 3.2: exactly one Host. Section 6.3 allows a body in any request,
                // but with other methods a body is rare and parsers differ.
                let plain = host && (body.is_none() || self.may_have_body());
                return if plain { Ok(()) } else { Err(Odd::Other) };
            }
            let (name, meaning, value) = self.field(line, limits).ok_or(Odd::Other)?;
            let at = begin + line.len() - value.len();
            match meaning {
                Meaning::Host if host || !is_host(value) => return Err(Odd::Other),
                Meaning::Host => host = true,
                Meaning::Connection if !value.eq_ignore_ascii_case(b"keep-alive") => {
                    return Err(Odd::Other);
                }
                Meaning::Length if body.is_some() => return Err(Odd::Other),
                Meaning::Length => body = Some(length(value).ok_or(Odd::Other)?),
                Meaning::Connection | Meaning::End => {}
                Meaning::Message => return Err(Odd::Other),
            }
            self.fields.push((name, (at, begin + line.len())));
        }
    }

    fn field<'a>(
        &mut self,
        line: &'a [u8],
        limits: &Limits,
    ) -> Option<(HeaderName, Meaning, &'a [u8])> {
        let colon = memchr(b':', line)?;
        let space = usize::from(line.get(colon + 1) == Some(&b' '));
        let (name, value) = (&line[..colon], &line[colon + 1 + space..]);
        if is_padded(value) || self.fields.len() == limits.headers {
            return None;
        }
        let (name, meaning) = self.names.read(name)?;
        Some((name, meaning, value))
    }

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

    /// Builds the request that [`Head::read`] found in `bytes`. Returns the request with the part
    /// of its body that has arrived. Copies the bytes once, into `memory`. `None` if a value
    /// contains bytes that are not plain.
    pub(crate) fn request(
        &mut self,
        bytes: &[u8],
        memory: &mut BytesMut,
        mut fields: HeaderMap,
    ) -> Option<(Request<()>, Bytes)> {
        let end = bytes.len().min(self.length + self.body);
        memory.extend_from_slice(&bytes[..end]);
        let bytes = memory.split().freeze();
        let part = |(from, to): Range| bytes.slice(from..to);
        let target = PathAndQuery::from_maybe_shared(part(self.target)).ok()?;
        fields.reserve(self.fields.len());
        for (name, value) in self.fields.drain(..) {
            fields.append(name, HeaderValue::from_maybe_shared(part(value)).ok()?);
        }
        let body = if self.body == 0 { Bytes::new() } else { part((self.length, end)) };
        let mut request = Request::new(());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = Uri::from(target);
        *request.version_mut() = Version::HTTP_11;
        // The replaced map is empty, and running its destructor would cost more than forgetting it.
        mem::forget(mem::replace(request.headers_mut(), fields));
        Some((request, body))
    }
}

/// The reason why a head is not plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Odd {
    /// Incomplete.
    Short,
    Other,
}

/// The line that starts at `from`, without its line end, which must be exactly CRLF.
fn line(bytes: &[u8], from: usize) -> Result<&[u8], Odd> {
    let rest = &bytes[from..];
    let end = memchr(b'\n', rest).ok_or(Odd::Short)?;
    rest[..end].strip_suffix(b"\r").ok_or(Odd::Other)
}

/// Whether a plain request line can start with these bytes. If not, there is no point in waiting
/// for more.
fn may_begin(bytes: &[u8]) -> bool {
    let Some(space) = memchr(b' ', bytes) else {
        return METHODS.iter().any(|method| method.starts_with(bytes));
    };
    let rest = &bytes[space + 1..];
    let target = memchr(b' ', rest).unwrap_or(rest.len());
    let is_plain = |&byte: &u8| TARGET[usize::from(byte)];
    method(&bytes[..space]).is_some()
        && rest[..target].iter().all(is_plain)
        && matches!(rest.first(), None | Some(b'/'))
        && (VERSION.starts_with(&rest[target..]) || &rest[target..] == b" HTTP/1.1\r")
}

/// Whether a plain field can start with these bytes.
fn may_begin_field(bytes: &[u8]) -> bool {
    let line = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    let name = &line[..memchr(b':', line).unwrap_or(line.len())];
    let is_name = line.is_empty() || HeaderName::from_bytes(name).is_ok();
    is_name && line.iter().all(|byte| (b' '..=b'~').contains(byte))
}

/// Whether a value starts or ends with whitespace, or contains bytes that parsers strip or replace
/// differently (RFC 9110 section 5.5).
fn is_padded(value: &[u8]) -> bool {
    let odd = value.iter().fold(false, |odd, byte| odd | !(b' '..=b'~').contains(byte));
    odd || value.first() == Some(&b' ') || value.last() == Some(&b' ')
}

/// Parses a Content-Length that every parser reads the same way: digits without a leading 0 (RFC
/// 9110 section 8.6). A body whose length has more digits would not fit into one read.
fn length(value: &[u8]) -> Option<usize> {
    let plain = matches!(value, [b'0'] | [b'1'..=b'9', ..]) && value.len() <= 9;
    if !plain || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(value.iter().fold(0, |length, digit| 10 * length + usize::from(digit - b'0')))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// An end-to-end field that only the service uses.
    End,
    Host,
    Connection,
    Length,
    Message,
}

impl Meaning {
    fn of(name: &[u8]) -> Meaning {
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

const LONGEST: usize = 32;

/// Number of cache slots. A browser behind a proxy sends about twenty headers.
const PLACES: usize = 128;

/// Nonstandard headers that proxies add. A constant name does not need a reference count.
const OF_PROXIES: [HeaderName; 10] = [
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("x-envoy-attempt-count"),
    HeaderName::from_static("x-envoy-expected-rq-timeout-ms"),
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
    HeaderName::from_static("x-request-id"),
];

#[derive(Debug)]
struct Known {
    written: [u8; LONGEST],
    length: usize,
    name: HeaderName,
    meaning: Meaning,
}

/// The most recent names, indexed by a hash of their bytes. Comparing a name is far cheaper than
/// parsing it: the parser checks the name, lowercases it, looks it up among the standard names, and
/// allocates if it finds none.
#[derive(Debug)]
struct Names(Vec<Option<Known>>);

impl Default for Names {
    fn default() -> Self {
        Names((0..PLACES).map(|_| None).collect())
    }
}

impl Names {
    /// The name for these bytes, and its meaning. `None` if the name is invalid.
    fn read(&mut self, written: &[u8]) -> Option<(HeaderName, Meaning)> {
        if written.len() > LONGEST {
            // All names that need special handling are shorter.
            return HeaderName::from_bytes(written).ok().map(|name| (name, Meaning::End));
        }
        let place = &mut self.0[place(written)];
        if !place.as_ref().is_some_and(|known| known.is_written(written)) {
            *place = Some(Known::read(written)?);
        }
        place.as_ref().map(|known| (known.name.clone(), known.meaning))
    }
}

impl Known {
    fn read(written: &[u8]) -> Option<Self> {
        let name = HeaderName::from_bytes(written).ok()?;
        let name = OF_PROXIES.into_iter().find(|usual| *usual == name).unwrap_or(name);
        let (length, meaning) = (written.len(), Meaning::of(written));
        let mut known = Known { written: [0; LONGEST], length, name, meaning };
        known.written[..length].copy_from_slice(written);
        Some(known)
    }

    fn is_written(&self, written: &[u8]) -> bool {
        self.written[..self.length] == *written
    }
}

/// Slot of a name. With these factors, the 38 names that browsers and proxies usually send do not
/// collide, whether in lower case or capitalised.
fn place(written: &[u8]) -> usize {
    let byte = |at: usize| written.get(at).map_or(0, |&byte| usize::from(byte));
    let (length, last) = (written.len(), written.len().wrapping_sub(1));
    (length + 3 * byte(0) + 25 * byte(last) + 19 * byte(last.wrapping_sub(3))) % PLACES
}

const METHODS: [&[u8]; 7] = [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH"];

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

/// Bytes of a path or query (RFC 3986 sections 3.3 and 3.4).
const TARGET: [bool; 256] = letters_digits_and(b"-._~!$&'()*+,;=:@/?%");

#[cfg(test)]
mod tests;
