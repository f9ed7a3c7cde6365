//! What a request is called, here and by those that handed it on.

use std::fmt;

use http::{HeaderName, HeaderValue};

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Most characters of a request id: what a client sends must not fill a log.
const MOST: usize = 128;

/// Characters of a UUID.
const UUID: usize = 36;

/// The id of a request: its own `x-request-id`, or one that was made for it.
///
/// At most 128 printable ASCII characters without spaces, so it can stand in a log or a header as
/// it is. [`request_id`](crate::request_id) gives a handler its own.
///
/// ```
/// use corelane::{Incoming, RequestId, Server};
/// use http::Request;
///
/// async fn handler(_request: Request<Incoming>) -> String {
///     let id = corelane::request_id();
///     format!("you are {}", id.as_ref().map_or("nobody", RequestId::as_str))
/// }
/// let builder = Server::builder().request_ids(true);
/// ```
#[derive(Clone, Copy)]
pub struct RequestId {
    text: [u8; MOST],
    length: u8,
}

impl RequestId {
    /// The id that a client chose, if it is one.
    pub(crate) fn taken(value: &HeaderValue) -> Option<Self> {
        let bytes = value.as_bytes();
        let fits = (1..=MOST).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic);
        fits.then(|| RequestId::of(bytes))
    }

    /// An id in the form of a random UUID (RFC 9562 section 5.4), as Envoy makes them.
    pub(crate) fn made(mut random: [u8; 16]) -> Self {
        random[6] = random[6] & 0x0f | 0x40;
        random[8] = random[8] & 0x3f | 0x80;
        let mut text = [b'-'; UUID];
        let mut places = text.iter_mut();
        for (index, byte) in random.into_iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                places.next();
            }
            // Not by `write!`, which takes longer than the rest of what is done for an id.
            for digit in [byte >> 4, byte & 0x0f] {
                if let Some(place) = places.next() {
                    *place = b"0123456789abcdef"[usize::from(digit)];
                }
            }
        }
        RequestId::of(&text)
    }

    fn of(bytes: &[u8]) -> Self {
        let mut text = [0; MOST];
        text[..bytes.len()].copy_from_slice(bytes);
        RequestId { text, length: bytes.len() as u8 }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        // All of it is ASCII.
        str::from_utf8(&self.text[..self.length.into()]).unwrap_or_default()
    }

    pub(crate) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(self.as_str()).ok()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RequestId").field(&self.as_str()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_printable_ids_are_taken_over() {
        let taken = |bytes: &[u8]| {
            let value = HeaderValue::from_bytes(bytes).expect("a header value");
            RequestId::taken(&value).map(|id| id.to_string())
        };
        assert_eq!(taken(b"a-1.\"{"), Some("a-1.\"{".to_owned()));
        assert_eq!(taken(&[b'x'; 128]), Some("x".repeat(128)));
        let wrong: [&[u8]; 5] = [b"", b"two words", b"tab\there", "é".as_bytes(), &[b'x'; 129]];
        assert_eq!(wrong.map(taken), [const { None }; 5]);
    }

    #[test]
    fn what_is_made_is_a_uuid_of_version_4() {
        let zero = "00000000-0000-4000-8000-000000000000";
        assert_eq!(RequestId::made([0; 16]).as_str(), zero);
        let ones = RequestId::made([0xff; 16]);
        assert_eq!(ones.as_str(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(ones.header().expect("a header value"), ones.as_str());
    }
}
