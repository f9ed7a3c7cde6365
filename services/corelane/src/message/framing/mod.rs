//! Tracks message boundaries of an HTTP/1.1 connection in parallel with hyper, and rejects
//! ambiguous input that hyper would accept.
//!
//! hyper ignores Content-Length next to Transfer-Encoding, merges equal Content-Length fields,
//! accepts a bare LF as line end, strips fragments from targets, and ignores whitespace after a
//! chunk size. A parser in front of the server may read these cases differently and take body bytes
//! for a request, or vice versa (request smuggling, RFC 9112 section 11.2). The parsed request
//! hides these differences, so the tracker reads the bytes before hyper does. At the first
//! ambiguous byte it ends hyper's input with bytes that hyper rejects.
//!
//! hyper gets one message at a time, and it gets each head only when the head is complete.
//! Therefore, neither the response to a head nor its size limit depends on how the bytes arrive.
//!
//! The tracker does not need to detect input that hyper itself rejects. The connection then ends,
//! and the tracker's state is [lost](State::Lost).

mod chunked;
mod request_line;

use memchr::{memchr, memchr2};

use request_line::RequestLine;
pub(crate) use request_line::Spoken;

/// Ends a head in such a way that hyper rejects it, because a head must not contain NUL (RFC 9110
/// section 5.5). The empty line makes hyper parse a head that it has already read in part.
const REFUSED_HEAD: &[u8] = b"\0\r\n\r\n";

const CONTENT_LENGTH: &[u8] = b"content-length";
const TRANSFER_ENCODING: &[u8] = b"transfer-encoding";
const USUAL_END: &[u8] = b" HTTP/1.1\r\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The reason why parsers disagree about the input.
    Ambiguous(&'static str),
    /// The input is not the start of an HTTP/1.1 or HTTP/1.0 request.
    Invalid(Spoken),
    /// The head exceeds the allowed bytes.
    HeadTooLarge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InputEnd {
    /// Number of bytes of the chunk to pass on to hyper.
    pub(crate) at: usize,
    /// Bytes passed to hyper after the chunk, before the end of the stream.
    pub(crate) tail: &'static [u8],
    pub(crate) fault: Fault,
}

#[derive(Debug)]
pub(crate) struct Framing {
    state: State,
    length: Option<u64>,
    coded: bool,
    line: RequestLine,
    spoken: Spoken,
    /// Maximum bytes of a head, including the empty lines before it.
    allowed: usize,
    /// Bytes of the current head that have been read, including the empty lines before it.
    head: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before a message, where empty lines are allowed (RFC 9112 section 2.2).
    Start,
    StartLf,
    RequestLine,
    FieldStart,
    /// Within a field name whose bytes are a prefix of a framing field's name.
    Name {
        expected: &'static [u8],
        matched: usize,
    },
    Field {
        after_cr: bool,
    },
    Length {
        part: LengthPart,
        value: u64,
    },
    HeadLf,
    Body(u64),
    ChunkSize {
        digits: u8,
        value: u64,
    },
    /// Whitespace after a chunk size. Only an extension may follow.
    ChunkSpace(u64),
    ChunkExtension(u64),
    ChunkSizeLf(u64),
    ChunkData(u64),
    ChunkDataCr,
    ChunkDataLf,
    TrailerStart,
    Trailer,
    TrailerLf,
    EndLf,
    /// Tracking has stopped: hyper rejects the input, or the input was cut.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LengthPart {
    Before,
    Digits,
    After,
    Lf,
}

/// Bytes consumed, or the offset of the byte to cut at and the reason.
type Consumed = Result<usize, (usize, &'static str)>;

const BARE_LF: &str = "a line ends with LF alone";

impl Framing {
    /// Allows heads of up to this many bytes.
    pub(crate) fn new(allowed: usize) -> Self {
        Framing {
            state: State::Start,
            length: None,
            coded: false,
            line: RequestLine::default(),
            spoken: Spoken::Http1,
            allowed,
            head: 0,
        }
    }

    /// Tracks bytes that have arrived, up to the end of the current message. Returns the number of
    /// tracked bytes.
    pub(crate) fn follow(&mut self, chunk: &[u8]) -> Result<usize, InputEnd> {
        let mut at = 0;
        while at < chunk.len() && (at == 0 || !self.is_between()) {
            let is_head = self.is_between() || self.in_head();
            let room = if is_head { self.allowed - self.head } else { usize::MAX };
            let rest = &chunk[at..];
            let step = self.step(&rest[..rest.len().min(room)]);
            let fault = match step {
                Ok(understood) => {
                    at += understood;
                    self.fault_of_head(is_head, understood)
                }
                Err((offset, reason)) => {
                    at += offset;
                    Some(Fault::Ambiguous(reason))
                }
            };
            if let Some(fault) = fault {
                self.state = State::Lost;
                return Err(InputEnd { at, tail: if is_head { REFUSED_HEAD } else { b"" }, fault });
            }
        }
        Ok(at)
    }

    /// The reason why the head is invalid, if this is certain after another `bytes` bytes have been
    /// read.
    fn fault_of_head(&mut self, is_head: bool, bytes: usize) -> Option<Fault> {
        if is_head && self.state == State::Lost {
            return Some(Fault::Invalid(self.spoken));
        }
        if !self.in_head() {
            return None;
        }
        self.head += bytes;
        (self.head == self.allowed).then_some(Fault::HeadTooLarge)
    }

    /// Whether the response to the head being read must have no body (RFC 9110 section 9.3.2).
    pub(crate) fn asks_head(&self) -> bool {
        self.line.asks_head()
    }

    pub(crate) fn is_between(&self) -> bool {
        self.state == State::Start && self.head == 0
    }

    pub(crate) fn in_head(&self) -> bool {
        match self.state {
            State::Start => self.head > 0,
            State::StartLf
            | State::RequestLine
            | State::FieldStart
            | State::Name { .. }
            | State::Field { .. }
            | State::Length { .. }
            | State::HeadLf => true,
            _ => false,
        }
    }

    pub(crate) fn in_body(&self) -> bool {
        !matches!(self.state, State::Start | State::Lost) && !self.in_head()
    }

    /// Consumes part of `rest`, which must not be empty. If no bytes are consumed, only the state
    /// has changed, and the new state will consume at least one byte.
    fn step(&mut self, rest: &[u8]) -> Consumed {
        match self.state {
            State::Start | State::StartLf | State::RequestLine => self.start(rest),
            State::FieldStart | State::Name { .. } | State::Field { .. } => self.field(rest),
            State::Length { part, value } => self.length(rest[0], part, value),
            State::HeadLf => self.expect(rest[0], b'\n', Self::body),
            State::Body(left) => {
                let (taken, left) = take(rest, left);
                self.state = if left == 0 { State::Start } else { State::Body(left) };
                Ok(taken)
            }
            State::Lost => Ok(rest.len()),
            _ => self.chunked(rest),
        }
    }

    /// Enters state `next` if `byte` is the byte that hyper accepts here.
    fn expect(&mut self, byte: u8, only: u8, next: impl FnOnce(&mut Self) -> State) -> Consumed {
        self.state = if byte == only { next(self) } else { State::Lost };
        Ok(1)
    }

    fn start(&mut self, rest: &[u8]) -> Consumed {
        if self.is_between() {
            self.line = RequestLine::default();
        }
        match (self.state, rest[0]) {
            (State::RequestLine, _) => return self.request_line(rest),
            (State::Start, b'\r') => self.state = State::StartLf,
            (State::Start, b'\n') => return Err((0, BARE_LF)),
            (State::Start, _) => {
                self.length = None;
                self.coded = false;
                self.state = State::RequestLine;
                return Ok(0);
            }
            (_, byte) => return self.expect(byte, b'\n', |_| State::Start),
        }
        Ok(1)
    }

    fn request_line(&mut self, rest: &[u8]) -> Consumed {
        let mut lf = memchr2(b'\n', b'#', rest);
        let sign = lf.is_some_and(|lf| rest[lf] == b'#');
        if sign {
            lf = memchr(b'\n', rest);
        }
        let part = &rest[..lf.map_or(rest.len(), |lf| lf + 1)];
        let begun = self.line.has_method();
        if let Some(place) = self.line.note_method(part) {
            self.state = State::Lost;
            return Ok(place);
        }
        if sign && let Some(fragment) = fragment(part, begun) {
            return Err((fragment, "the target has a fragment"));
        }
        if lf.is_none() {
            self.line.note(part);
            return Ok(part.len());
        }
        self.state = State::FieldStart;
        if part.ends_with(USUAL_END) {
            return Ok(part.len());
        }
        self.line.note(part);
        if !self.line.ends_with_cr() {
            return Err((part.len() - 1, BARE_LF));
        }
        self.spoken = self.line.spoken();
        if !self.line.is_supported() {
            self.state = State::Lost;
        }
        Ok(part.len())
    }

    fn field(&mut self, rest: &[u8]) -> Consumed {
        match (self.state, rest[0]) {
            (State::FieldStart, b'\r') => self.state = State::HeadLf,
            (State::FieldStart, b'\n') => return Err((0, BARE_LF)),
            (State::FieldStart, first) => {
                self.state = match first {
                    b'c' | b'C' => State::Name { expected: CONTENT_LENGTH, matched: 0 },
                    b't' | b'T' => State::Name { expected: TRANSFER_ENCODING, matched: 0 },
                    _ => State::Field { after_cr: false },
                };
                return Ok(0);
            }
            (State::Name { expected, matched }, byte) if matched == expected.len() => {
                if byte == b':' {
                    return self.framing_field(expected);
                }
                self.state = State::Field { after_cr: false };
                return Ok(0);
            }
            (State::Name { expected, matched }, _) => {
                let n = rest.len().min(expected.len() - matched);
                if rest[..n].eq_ignore_ascii_case(&expected[matched..matched + n]) {
                    self.state = State::Name { expected, matched: matched + n };
                    return Ok(n);
                }
                self.state = State::Field { after_cr: false };
                return Ok(0);
            }
            (State::Field { after_cr }, _) => {
                let Some(lf) = memchr(b'\n', rest) else {
                    self.state = State::Field { after_cr: rest.ends_with(b"\r") };
                    return Ok(rest.len());
                };
                if !(if lf == 0 { after_cr } else { rest[lf - 1] == b'\r' }) {
                    return Err((lf, BARE_LF));
                }
                self.state = State::FieldStart;
                return Ok(lf + 1);
            }
            _ => self.state = State::Lost,
        }
        Ok(1)
    }

    fn framing_field(&mut self, name: &[u8]) -> Consumed {
        let is_length = name == CONTENT_LENGTH;
        if self.length.is_some() && is_length {
            return Err((0, "there is more than one Content-Length"));
        }
        if (self.length.is_some() && !is_length) || (self.coded && is_length) {
            return Err((0, "there are both Content-Length and Transfer-Encoding"));
        }
        if is_length {
            self.length = Some(0);
            self.state = State::Length { part: LengthPart::Before, value: 0 };
        } else {
            // Codings are checked after hyper has parsed them.
            self.coded = true;
            self.state = State::Field { after_cr: false };
        }
        Ok(1)
    }

    fn length(&mut self, byte: u8, part: LengthPart, value: u64) -> Consumed {
        let (part, value) = match (part, byte) {
            (LengthPart::Before, b' ' | b'\t') => (part, value),
            (LengthPart::Before | LengthPart::Digits, b'0'..=b'9') => {
                let digit = u64::from(byte - b'0');
                match value.checked_mul(10).and_then(|tens| tens.checked_add(digit)) {
                    Some(value) => (LengthPart::Digits, value),
                    None => return self.lose(),
                }
            }
            (LengthPart::Digits | LengthPart::After, b' ' | b'\t') => (LengthPart::After, value),
            (LengthPart::Digits | LengthPart::After, b'\r') => (LengthPart::Lf, value),
            (LengthPart::Digits | LengthPart::After, b'\n') => return Err((0, BARE_LF)),
            (LengthPart::Lf, b'\n') => {
                self.length = Some(value);
                self.state = State::FieldStart;
                return Ok(1);
            }
            _ => return self.lose(),
        };
        self.state = State::Length { part, value };
        Ok(1)
    }

    /// The state after a complete head.
    fn body(&mut self) -> State {
        self.head = 0;
        match self.length {
            _ if self.coded => State::ChunkSize { digits: 0, value: 0 },
            None | Some(0) => State::Start,
            Some(length) => State::Body(length),
        }
    }

    fn lose(&mut self) -> Consumed {
        self.state = State::Lost;
        Ok(1)
    }
}

/// Position of the fragment in a target. A method may contain `#`, but a target may not (RFC 9112
/// section 3.2).
fn fragment(part: &[u8], has_method: bool) -> Option<usize> {
    let target = if has_method { 0 } else { memchr(b' ', part)? };
    memchr(b'#', &part[target..]).map(|fragment| target + fragment)
}

/// Consumes up to `left` bytes of `rest`. Returns the number of consumed bytes and the new `left`.
fn take(rest: &[u8], left: u64) -> (usize, u64) {
    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
    (taken, left - taken as u64)
}

#[cfg(test)]
mod tests;
