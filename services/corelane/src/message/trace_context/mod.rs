//! W3C Trace Context (<https://www.w3.org/TR/trace-context-2/>): the trace that a request belongs
//! to.

use std::borrow::Cow;
use std::fmt;

use http::{HeaderMap, HeaderValue};

pub(crate) const PARENT_FIELD: &str = "traceparent";
const STATE_FIELD: &str = "tracestate";
const BAGGAGE_FIELD: &str = "baggage";

/// Flags of version 00: sampled, and random trace id (section 3.2.2.5). Other flags are passed on
/// as 0.
const SAMPLED: u8 = 1;
const RANDOM: u8 = 2;

/// Maximum length of a `baggage` that is passed on (W3C Baggage section 3.3.2).
const BAGGAGE_LENGTH: usize = 8192;

/// Length of version 00. Later versions start with the same fields (section 4.2).
const LENGTH: usize = 55;

/// Minimum length of a `tracestate` that must be passed on (section 3.3.1.5). Longer values are
/// dropped.
const STATE_LENGTH: usize = 512;
const STATE_MEMBERS: usize = 32;

/// The trace that a request belongs to, and the parent span for calls to other services.
///
/// [`trace_context`](crate::trace_context) returns the current request's context. Copy it to the
/// `traceparent` and `tracestate` headers of each call that the handler makes.
///
/// ```
/// use corelane::{Server, Traces};
/// use http::Request;
///
/// async fn handler() -> Request<()> {
///     let mut call = Request::new(());
///     if let Some(context) = corelane::trace_context() {
///         call.headers_mut().insert("traceparent", context.traceparent());
///         if let Some(state) = context.tracestate() {
///             call.headers_mut().insert("tracestate", state.clone());
///         }
///     }
///     call
/// }
/// let builder = Server::builder().traces(Traces::PassOn);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace: [u8; 16],
    span: [u8; 8],
    flags: u8,
    state: Option<HeaderValue>,
    baggage: Option<HeaderValue>,
}

impl TraceContext {
    pub(crate) fn begin(trace: [u8; 16], span: [u8; 8]) -> Self {
        TraceContext { trace, span, flags: SAMPLED | RANDOM, state: None, baggage: None }
    }

    pub(crate) fn read(headers: &HeaderMap) -> Option<Self> {
        let (mut parent, mut stated, mut loaded) = (None, false, false);
        for (name, value) in headers {
            match name.as_str() {
                PARENT_FIELD if parent.is_some() => return None,
                PARENT_FIELD => parent = Some(value),
                STATE_FIELD => stated = true,
                BAGGAGE_FIELD => loaded = true,
                _ => {}
            }
        }
        let mut context = TraceContext::parse(parent?.as_bytes())?;
        if stated {
            context.state = joined(headers, STATE_FIELD, is_state);
        }
        if loaded {
            context.baggage = joined(headers, BAGGAGE_FIELD, |all| all.len() <= BAGGAGE_LENGTH);
        }
        Some(context)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let [version] = hex(text.get(..2)?)?;
        let rest = text.get(LENGTH..)?;
        let may_go_on = version > 0 && rest.starts_with(b"-");
        let hyphens = [2, 35, 52].iter().all(|&at| text[at] == b'-');
        if version == 0xff || !hyphens || !(rest.is_empty() || may_go_on) {
            return None;
        }
        let (trace, span) = (hex(&text[3..35])?, hex(&text[36..52])?);
        let [flags] = hex(&text[53..LENGTH])?;
        let named = trace != [0; 16] && span != [0; 8];
        named.then_some(TraceContext {
            trace,
            span,
            flags: flags & (SAMPLED | RANDOM),
            state: None,
            baggage: None,
        })
    }

    pub(crate) fn below(mut self, span: [u8; 8]) -> Self {
        self.span = span;
        self
    }

    /// The trace id.
    pub fn trace_id(&self) -> [u8; 16] {
        self.trace
    }

    /// The parent span's id for calls to other services: this server's span if it records the
    /// request, otherwise the caller's.
    pub fn span_id(&self) -> [u8; 8] {
        self.span
    }

    /// Whether the trace is sampled.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The flags in `traceparent`.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// The value of `traceparent`.
    pub fn traceparent(&self) -> HeaderValue {
        let text = format!("00-{}-{}-{:02x}", Hex(&self.trace), Hex(&self.span), self.flags);
        // Hexadecimal digits and hyphens form a valid header value.
        HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
    }

    /// The unparsed `tracestate` value, if any.
    pub fn tracestate(&self) -> Option<&HeaderValue> {
        self.state.as_ref()
    }

    /// The unparsed value of the request's `baggage` header, if any (W3C Baggage). The client may have written it.
    pub fn baggage(&self) -> Option<&HeaderValue> {
        self.baggage.as_ref()
    }
}

/// Formats bytes as lower-case hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Parses lower-case hexadecimal digits, two per byte.
fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let mut all = 0;
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let (high, low) = (DIGITS[usize::from(pair[0])], DIGITS[usize::from(pair[1])]);
        all |= high | low;
        *byte = high << 4 | low & 15;
    }
    (all < 16).then_some(bytes)
}

/// Value of each lower-case hexadecimal digit, and 16 for other bytes.
const DIGITS: [u8; 256] = {
    let digits = b"0123456789abcdef";
    let mut values = [16; 256];
    let mut value = 0;
    while value < digits.len() {
        values[digits[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// The value to pass on: all fields with this name joined, or `None` if it is invalid or too long.
fn joined(
    headers: &HeaderMap,
    name: &str,
    is_valid: impl Fn(&[u8]) -> bool,
) -> Option<HeaderValue> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next()?, values.next());
    let whole = match second {
        None => Cow::Borrowed(first.as_bytes()),
        Some(second) => {
            let all = [first, second].into_iter().chain(values);
            Cow::Owned(all.map(HeaderValue::as_bytes).collect::<Vec<_>>().join(&b','))
        }
    };
    if !is_valid(&whole) {
        return None;
    }
    match whole {
        Cow::Borrowed(_) => Some(first.clone()),
        Cow::Owned(whole) => HeaderValue::from_bytes(&whole).ok(),
    }
}

/// Whether this is a valid list of members (section 3.3.1).
fn is_state(list: &[u8]) -> bool {
    let mut keys: [&[u8]; STATE_MEMBERS] = [b""; STATE_MEMBERS];
    let mut known = 0;
    if list.len() > STATE_LENGTH {
        return false;
    }
    for member in list.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
        if member.is_empty() {
            continue;
        }
        let Some(equals) = member.iter().position(|&byte| byte == b'=') else { return false };
        let (key, value) = (&member[..equals], &member[equals + 1..]);
        let again = keys[..known].contains(&key);
        if known == STATE_MEMBERS || again || !is_key(key) || !is_value(value) {
            return false;
        }
        keys[known] = key;
        known += 1;
    }
    known > 0
}

/// Section 3.3.1.3.1.
fn is_key(key: &[u8]) -> bool {
    let is_start = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let [first, rest @ ..] = key else { return false };
    let rest_fits = rest.iter().all(|&byte| is_start(byte) || b"_-*/@".contains(&byte));
    is_start(*first) && key.len() <= 256 && rest_fits
}

/// Section 3.3.1.3.2. Trailing spaces are already trimmed.
fn is_value(value: &[u8]) -> bool {
    let fits = |&byte: &u8| matches!(byte, b' '..=b'~') && byte != b'=';
    (1..=256).contains(&value.len()) && value.iter().all(fits)
}

#[cfg(test)]
mod tests;
