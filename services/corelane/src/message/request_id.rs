//! Request ids.

use std::fmt;

use http::{HeaderName, HeaderValue};

pub(crate) const ID_FIELD: &str = "x-request-id";
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static(ID_FIELD);

/// Maximum length of a request id, so that a client cannot fill the log.
const MOST: usize = 128;

const UUID: usize = 36;

/// A request's id: its `x-request-id` header, or a generated id.
///
/// At most 128 printable ASCII characters without spaces, so it is safe in logs and headers.
/// [`request_id`](crate::request_id) returns the current request's id.
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
    fn of(bytes: &[u8]) -> Self {
        let mut text = [0; MOST];
        text[..bytes.len()].copy_from_slice(bytes);
        RequestId { text, length: bytes.len() as u8 }
    }

    /// The id as a string.
    pub fn as_str(&self) -> &str {
        // The text is ASCII.
        str::from_utf8(&self.text[..self.length.into()]).unwrap_or_default()
    }
}

/// A request's id. The text of a generated id is written only when needed.
#[derive(Clone, Debug)]
pub(crate) enum Id {
    /// The client's value, returned unchanged and without copying it.
    Taken(HeaderValue),
    /// Random bytes.
    Made([u8; 16]),
}

impl Id {
    /// The client's value, if it is a valid id.
    pub(crate) fn taken(value: &HeaderValue) -> Option<Self> {
        let bytes = value.as_bytes();
        // Checks all bytes without an early exit, which lets the compiler vectorise the loop.
        let odd = bytes.iter().fold(false, |odd, byte| odd | !byte.is_ascii_graphic());
        let fits = (1..=MOST).contains(&bytes.len()) && !odd;
        fits.then(|| Id::Taken(value.clone()))
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Id::Taken(value) => read(value.as_bytes()),
            Id::Made(random) => read(&uuid(*random)),
        }
    }

    pub(crate) fn header(&self) -> Option<HeaderValue> {
        match self {
            Id::Taken(value) => Some(value.clone()),
            Id::Made(random) => HeaderValue::from_bytes(&uuid(*random)).ok(),
        }
    }

    pub(crate) fn id(&self) -> RequestId {
        self.read(RequestId::of)
    }
}

/// A random UUID (RFC 9562 section 5.4), like Envoy's.
fn uuid(mut random: [u8; 16]) -> [u8; UUID] {
    random[6] = random[6] & 0x0f | 0x40;
    random[8] = random[8] & 0x3f | 0x80;
    let mut text = [b'-'; UUID];
    // `write!` would take longer than all other work for an id.
    for (place, byte) in PLACES.into_iter().zip(random) {
        text[place..place + 2].copy_from_slice(&HEX[usize::from(byte)]);
    }
    text
}

const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

const HEX: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut hex = [[0; 2]; 256];
    let mut byte = 0;
    while byte < hex.len() {
        hex[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    hex
};

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
            Id::taken(&value).map(|id| id.id().to_string())
        };
        assert_eq!(taken(b"a-1.\"{"), Some("a-1.\"{".to_owned()));
        assert_eq!(taken(&[b'x'; 128]), Some("x".repeat(128)));
        let wrong: [&[u8]; 5] = [b"", b"two words", b"tab\there", "é".as_bytes(), &[b'x'; 129]];
        assert_eq!(wrong.map(taken), [const { None }; 5]);
    }

    #[test]
    fn what_is_made_is_a_uuid_of_version_4() {
        let zero = "00000000-0000-4000-8000-000000000000";
        assert_eq!(Id::Made([0; 16]).id().as_str(), zero);
        let ones = Id::Made([0xff; 16]);
        assert_eq!(ones.id().as_str(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(ones.header().expect("a header value"), ones.id().as_str());
    }
}
