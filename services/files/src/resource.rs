//! A file with its encoded copies, ready to send.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::HeaderMap;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderName, HeaderValue,
    LAST_MODIFIED, VARY,
};
use httpdate::fmt_http_date;
use siphasher::sip::SipHasher13;

use crate::conditions::Validators;
use crate::encoding::{Accepted, Coding};
use crate::stamp::{Known, Stamp};

/// Estimated memory for a file and its copies in addition to their content, so that many small
/// files also fill the cache.
const OVERHEAD: u64 = 1024;

/// Last second of a header date, 9999-12-31T23:59:59.
const LAST_SECOND: u64 = 253_402_300_799;

/// A large file, which is read while it is sent.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: File,
    pub(crate) stamp: Stamp,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Memory(Bytes),
    Disk(Arc<OpenFile>),
}

#[derive(Debug)]
pub(crate) struct Representation {
    coding: Option<Coding>,
    pub(crate) content: Content,
    pub(crate) length: u64,
    pub(crate) stamp: Stamp,
    pub(crate) validators: Validators,
    pub(crate) media_type: HeaderValue,
    pub(crate) fields: Vec<(HeaderName, HeaderValue)>,
}

impl Representation {
    pub(crate) fn new(
        path: &str,
        coding: Option<Coding>,
        content: Content,
        stamp: Stamp,
        cache_control: HeaderValue,
    ) -> Self {
        let now = SystemTime::now();
        let validators = Validators {
            etag: etag(&content, &stamp, coding, now),
            modified: modified(&stamp, now),
        };
        let last_modified = HeaderValue::from_str(&fmt_http_date(validators.modified));
        let media_type = media_type(path);
        let mut fields = vec![
            (CONTENT_TYPE, media_type.clone()),
            (ETAG, validators.etag.clone()),
            (CACHE_CONTROL, cache_control),
            (ACCEPT_RANGES, HeaderValue::from_static("bytes")),
        ];
        // A date is a valid header value.
        fields.extend(last_modified.map(|date| (LAST_MODIFIED, date)));
        fields.extend(coding.map(|coding| (CONTENT_ENCODING, coding.value())));
        let length = match &content {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::Disk(_) => stamp.size(),
        };
        Representation { coding, content, length, stamp, validators, media_type, fields }
    }

    pub(crate) fn fields(&self, mut headers: HeaderMap) -> HeaderMap {
        headers.clear();
        // hyper keeps the map for the connection's next request, so it should be no larger than
        // needed.
        if !(ROOM..=MOST_ROOM).contains(&headers.capacity()) {
            headers = HeaderMap::with_capacity(ROOM);
        }
        for (name, value) in &self.fields {
            headers.insert(name, value.clone());
        }
        headers
    }

    /// Headers of a 304 (RFC 9110 section 15.4.5).
    pub(crate) fn fields_of_304(&self) -> HeaderMap {
        let told = |name: &HeaderName| matches!(*name, ETAG | CACHE_CONTROL | VARY);
        self.fields.iter().filter(|(name, _)| told(name)).cloned().collect()
    }
}

/// Maximum number of headers in a response, including headers that servers add, so that the map
/// does not grow. `MOST_ROOM` is the next larger map size.
const ROOM: usize = 12;
const MOST_ROOM: usize = 24;

/// The entity tag (RFC 9110 section 8.8.3), equal on all replicas with the same file.
///
/// The tag of a small file is a hash of its content, which is read anyway. The tag of a large file
/// consists of its size and modification time, and is weak for as long as other content could still
/// get the same time.
fn etag(content: &Content, stamp: &Stamp, coding: Option<Coding>, now: SystemTime) -> HeaderValue {
    let (seconds, nanos) = stamp.modified();
    let (weak, opaque) = match content {
        Content::Memory(bytes) => {
            // `DefaultHasher` may change with the toolchain (std::hash), and equal files would then
            // differ between replicas. The key is zero, the default.
            ("", format!("{:x}-{:016x}", bytes.len(), SipHasher13::new().hash(bytes)))
        }
        Content::Disk(_) => {
            let over = time(seconds) + Duration::from_secs(2) <= now;
            let weak = if over { "" } else { "W/" };
            (weak, format!("{:x}-{seconds:x}.{nanos:x}", stamp.size()))
        }
    };
    let coding = coding.map_or("", Coding::suffix);
    // Hexadecimal digits, dots and hyphens form a valid header value.
    HeaderValue::try_from(format!("{weak}\"{opaque}{coding}\""))
        .unwrap_or(HeaderValue::from_static("\"\""))
}

/// The modification time, which must not be in the future (RFC 9110 section 8.8.2.1).
fn modified(stamp: &Stamp, now: SystemTime) -> SystemTime {
    let now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
    time(stamp.modified().0.min(now as i64))
}

fn time(seconds: i64) -> SystemTime {
    let seconds = u64::try_from(seconds).unwrap_or(0).min(LAST_SECOND);
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn media_type(path: &str) -> HeaderValue {
    let guess = mime_guess::from_path(path).first_raw().unwrap_or("application/octet-stream");
    // Common types are constants, which are cheaper to send repeatedly.
    let with_charset = match guess {
        "text/html" => "text/html; charset=utf-8",
        "text/css" => "text/css; charset=utf-8",
        "text/javascript" | "application/javascript" => "text/javascript; charset=utf-8",
        "text/plain" => "text/plain; charset=utf-8",
        text if text.starts_with("text/") => {
            let value = HeaderValue::try_from(format!("{text}; charset=utf-8"));
            return value.unwrap_or(HeaderValue::from_static("text/plain; charset=utf-8"));
        }
        other => other,
    };
    HeaderValue::from_static(with_charset)
}

#[derive(Debug)]
pub(crate) struct Resource {
    identity: Representation,
    encoded: Vec<Representation>,
    pub(crate) known: Known,
    /// Bytes of memory for the resource; `None` if it is too large for the cache.
    pub(crate) cost: Option<u64>,
}

impl Resource {
    pub(crate) fn new(
        mut identity: Representation,
        mut encoded: Vec<Representation>,
        known: Known,
    ) -> Self {
        encoded.sort_by_key(|copy| copy.length);
        if !encoded.is_empty() {
            // `Vary` is also added to the unencoded file, because another client might get a
            // different form (RFC 9110 section 12.5.5).
            for one in std::iter::once(&mut identity).chain(&mut encoded) {
                one.fields.push((VARY, HeaderValue::from_static("accept-encoding")));
            }
        }
        let cost = |one: &Representation| match one.content {
            Content::Memory(_) => Some(one.length + OVERHEAD),
            Content::Disk(_) => None,
        };
        let cost = std::iter::once(&identity).chain(&encoded).map(cost).sum();
        Resource { identity, encoded, known, cost }
    }

    pub(crate) fn select(&self, headers: &HeaderMap) -> &Representation {
        if self.encoded.is_empty() {
            return &self.identity;
        }
        let chosen = Accepted::of(headers).choose(self.encoded.iter().filter_map(|one| one.coding));
        let chosen = self.encoded.iter().find(|one| one.coding.is_some() && one.coding == chosen);
        chosen.unwrap_or(&self.identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_follow_the_name() {
        for (path, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a/b.JS", "text/javascript; charset=utf-8"),
            ("a.css", "text/css; charset=utf-8"),
            ("4k.txt", "text/plain; charset=utf-8"),
            ("a.json", "application/json"),
            ("a.wasm", "application/wasm"),
            ("a.svg", "image/svg+xml"),
            ("a.woff2", "font/woff2"),
            ("archive.tar.gz", "application/gzip"),
            ("LICENSE", "application/octet-stream"),
        ] {
            assert_eq!(media_type(path), expected, "{path}");
        }
    }

    #[test]
    fn times_fit_a_header_field() {
        for seconds in [i64::MIN, -1, 0, 1, i64::MAX] {
            assert!(!fmt_http_date(time(seconds)).is_empty());
        }
    }
}
