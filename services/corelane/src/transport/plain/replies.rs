//! Encodes responses.

use std::mem;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING};
use http::{Extensions, HeaderValue, Response, StatusCode};
use http_body::Body;
use hyper::ext::ReasonPhrase;

use super::requests::{Heard, Input};
use super::writing::Part;
use super::{Flow, PlainTurn, Stage, broken};
use crate::base::clock::Tick;
use crate::base::error::BoxError;
use crate::request::made::{Made, ReplyBody};
use crate::request::service::HttpService;
use crate::transport::buffers::{Date, ReplySlot, ReplyState};

/// Body parts up to this size are copied into the output buffer. A vectored write would cost more,
/// because the kernel copies and checks the vector first (writev(2)).
const JOINED: usize = 4096;

const USUAL: usize = 512;

/// A response whose body is produced in parts.
pub(super) struct Streaming<S: HttpService> {
    reply_slot: ReplySlot<S>,
    encoded: Encoded,
    /// Bytes that the client sent after the request's head.
    input: Input,
    /// Whether the body was already polled in this turn.
    pub(super) polled: bool,
}

pub(super) enum Encoding<S: HttpService> {
    /// The response is complete except for a part of the body that is not in the output buffer.
    Complete {
        part: Part,
        close: bool,
    },
    Begun(Part, Box<Streaming<S>>),
    Failed(BoxError),
}

impl<S: HttpService> Encoding<S> {
    /// Whether the response to the next request can be sent in the same write.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self, Encoding::Complete { part, close: false } if part.is_empty())
    }
}

enum Gathered {
    Part(Part),
    End(Part),
    Waits,
    Failed(BoxError),
}

impl<S: HttpService> PlainTurn<'_, S> {
    /// Appends a response to `out`, including the part of its body that is ready. `ends` means that
    /// the connection ends with this response.
    pub(super) fn encode(
        &self,
        mut reply_slot: ReplySlot<S>,
        reply: Made<S>,
        out: &mut Vec<u8>,
        ends: bool,
        cx: &mut Context<'_>,
    ) -> Encoding<S> {
        let buffers = &self.host.buffers;
        let begun = out.len();
        let encoded = encode_head(&reply, ends, &mut buffers.date.borrow_mut(), out);
        let head_ends = out.len();
        let (head, body) = reply.into_parts();
        buffers.return_fields(head.headers);
        reply_slot.set(ReplyState::Body { body });
        let close = encoded.close;
        if encoded.framing == BodyLength::Length(0) {
            buffers.return_reply_slot(reply_slot);
            return Encoding::Complete { part: Part::default(), close };
        }
        let mut streaming =
            Streaming { reply_slot, encoded, input: Input::default(), polled: false };
        match streaming.gather(out, cx) {
            Gathered::End(part) => {
                buffers.return_reply_slot(streaming.reply_slot);
                Encoding::Complete { part, close }
            }
            Gathered::Part(part) => Encoding::Begun(part, Box::new(streaming)),
            Gathered::Waits => {
                streaming.polled = true;
                Encoding::Begun(Part::default(), Box::new(streaming))
            }
            Gathered::Failed(error) => {
                // If the body fails before its first byte, no part of the response is sent.
                if out.len() == head_ends {
                    out.truncate(begun);
                }
                Encoding::Failed(error)
            }
        }
    }

    /// The bytes to write after the output buffer, and the stage after that write. `input` contains
    /// the bytes that the client sent after the request's head.
    pub(super) fn follow(&self, encoding: Encoding<S>, input: Input) -> (Part, Stage<S>) {
        match encoding {
            Encoding::Complete { part, close } => (part, self.after(close, input)),
            Encoding::Begun(part, mut streaming) => {
                streaming.input = input;
                streaming.reply_slot.as_mut().set_streaming();
                (part, Stage::Streaming(streaming))
            }
            Encoding::Failed(error) => (Part::default(), broken(&*error)),
        }
    }

    /// The stage after a complete response. `close` ends the connection.
    pub(super) fn after(&self, close: bool, input: Input) -> Stage<S> {
        if close {
            Stage::closing()
        } else if input.upload.is_some() {
            Stage::Discarding(Box::new(input))
        } else {
            Stage::unread(input.unread)
        }
    }

    pub(super) fn stream(
        &mut self,
        mut streaming: Box<Streaming<S>>,
        cx: &mut Context<'_>,
    ) -> Flow<S> {
        loop {
            if !mem::take(&mut streaming.polled) {
                let mut out = self.host.buffers.take_output();
                match streaming.gather(&mut out, cx) {
                    Gathered::Part(part) => {
                        return self.write(out, part, Stage::Streaming(streaming), cx);
                    }
                    Gathered::End(part) => {
                        let Streaming { reply_slot, encoded, input, .. } = *streaming;
                        self.host.buffers.return_reply_slot(reply_slot);
                        let next = self.after(encoded.close, input);
                        return self.write(out, part, next, cx);
                    }
                    Gathered::Failed(error) => {
                        return self.write(out, Part::default(), broken(&*error), cx);
                    }
                    Gathered::Waits if out.is_empty() => self.host.buffers.return_output(out),
                    Gathered::Waits => {
                        streaming.polled = true;
                        return self.write(out, Part::default(), Stage::Streaming(streaming), cx);
                    }
                }
            }
            match self.listen(&mut streaming.input, cx) {
                Heard::More => {}
                Heard::Nothing => return Flow::Wait(Stage::Streaming(streaming)),
                Heard::End => return Flow::Go(Stage::Broken),
            }
        }
    }
}

impl<S: HttpService> Streaming<S> {
    /// Appends the ready part of the body to `out`, up to the size of one write.
    fn gather(&mut self, out: &mut Vec<u8>, cx: &mut Context<'_>) -> Gathered {
        loop {
            let data = match self.reply_slot.as_mut().poll_data(cx) {
                Poll::Pending => return Gathered::Waits,
                Poll::Ready(Some(Ok(data))) => data,
                Poll::Ready(Some(Err(error))) => return Gathered::Failed(error),
                Poll::Ready(None) => return self.end(out),
            };
            let gathered = match &mut self.encoded.framing {
                BodyLength::Length(left) => of_length(data, left, out),
                BodyLength::Chunked => chunk(data, self.reply_slot.as_mut().has_ended(), out),
            };
            match gathered {
                Some(gathered) => return gathered,
                None if out.len() >= JOINED => return Gathered::Part(Part::default()),
                None => {}
            }
        }
    }

    fn end(&self, out: &mut Vec<u8>) -> Gathered {
        match self.encoded.framing {
            BodyLength::Length(_) => Gathered::Failed("a body is shorter than announced".into()),
            BodyLength::Chunked => {
                out.extend_from_slice(LAST_CHUNK);
                Gathered::End(Part::default())
            }
        }
    }
}

/// How the client detects the end of a response body (RFC 9112 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyLength {
    /// Content-Length, with the number of bytes left to send.
    Length(u64),
    Chunked,
}

#[derive(Clone, Copy, Debug)]
struct Encoded {
    framing: BodyLength,
    /// Whether the head announces that the connection ends with this response.
    close: bool,
}

/// Appends a response head to `out`. `close` ends the connection with this response even if the
/// service does not request that.
fn encode_head<B>(
    reply: &Response<ReplyBody<B>>,
    close: bool,
    date: &mut Date,
    out: &mut Vec<u8>,
) -> Encoded
where
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    out.reserve(USUAL);
    let (status, body, in_flight) = (reply.status(), reply.body(), reply.body().in_flight());
    // RFC 9110 section 6.4.1: these responses have no body.
    let bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = match body.is_end_stream() || bodiless {
        true => Some(0),
        false => body.size_hint().exact(),
    };
    status_line(status, reply.extensions(), out);
    let (mut dated, mut says_close, mut announced) = (false, false, None);
    for (name, value) in reply.headers() {
        match *name {
            CONTENT_LENGTH if in_flight.asks_head() => {}
            CONTENT_LENGTH => {
                announced = number(value);
                continue;
            }
            TRANSFER_ENCODING => continue,
            CONNECTION if closes(value) => says_close = true,
            // The service's own header must not contradict the end of the connection.
            CONNECTION if close => continue,
            DATE => dated = true,
            _ if in_flight.names(name.as_str()) => continue,
            _ => {}
        }
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if close && !says_close {
        out.extend_from_slice(b"connection: close\r\n");
    }
    in_flight.write_names(out);
    // The body's length takes precedence over the service's Content-Length.
    let framing = length.or(announced).map_or(BodyLength::Chunked, BodyLength::Length);
    match framing {
        _ if in_flight.asks_head() || bodiless => {}
        BodyLength::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        BodyLength::Length(length) => {
            out.extend_from_slice(b"content-length: ");
            decimal_line(length, out);
        }
    }
    if dated {
        out.extend_from_slice(b"\r\n");
    } else {
        out.extend_from_slice(date.at(in_flight.made().unwrap_or_else(Tick::now)));
    }
    Encoded { framing, close: close || says_close }
}

fn status_line(status: StatusCode, extensions: &Extensions, out: &mut Vec<u8>) {
    let phrase = (!extensions.is_empty()).then(|| extensions.get::<ReasonPhrase>()).flatten();
    if status == StatusCode::OK && phrase.is_none() {
        return out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    }
    // hyper writes the same text for a status without a reason phrase.
    let usual = || status.canonical_reason().unwrap_or("<none>").as_bytes();
    let phrase = phrase.map_or_else(usual, ReasonPhrase::as_bytes);
    // `write!` would take ten times as long.
    for part in [b"HTTP/1.1 ", status.as_str().as_bytes(), b" ", phrase, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// Writes the line that starts a chunk (RFC 9112 section 7.1).
fn chunk_line(length: usize, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut line = *b"0000000000000000\r\n";
    let (mut at, mut rest) = (line.len() - 2, length);
    while rest > 0 {
        at -= 1;
        line[at] = DIGITS[rest % 16];
        rest /= 16;
    }
    out.extend_from_slice(&line[at..]);
}

/// Whether a Connection value contains the option `close` (RFC 9110 section 7.6.1).
fn closes(value: &HeaderValue) -> bool {
    let mut options = value.as_bytes().split(|&byte| byte == b',');
    options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// The service's Content-Length, if it is a number.
fn number(value: &HeaderValue) -> Option<u64> {
    let text = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok()
}

fn decimal_line(mut number: u64, out: &mut Vec<u8>) {
    let mut line = *b"00000000000000000000\r\n";
    let mut at = line.len() - 2;
    loop {
        at -= 1;
        line[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&line[at..]);
        }
    }
}

const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Appends data to a body that has `left` bytes left to send. Drops data beyond the announced
/// length, because it would corrupt the next response.
fn of_length(mut data: Bytes, left: &mut u64, out: &mut Vec<u8>) -> Option<Gathered> {
    data.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
    *left -= data.len() as u64;
    let part = if data.len() <= JOINED {
        out.extend_from_slice(&data);
        Part::default()
    } else {
        Part { data, tail: b"" }
    };
    match (*left, part.is_empty()) {
        (0, _) => Some(Gathered::End(part)),
        (_, false) => Some(Gathered::Part(part)),
        (_, true) => None,
    }
}

/// Appends a chunk, and the last chunk if the body has `ended`.
fn chunk(data: Bytes, ended: bool, out: &mut Vec<u8>) -> Option<Gathered> {
    chunk_line(data.len(), out);
    let part = if data.len() <= JOINED {
        out.extend_from_slice(&data);
        out.extend_from_slice(if ended { b"\r\n0\r\n\r\n" } else { b"\r\n" });
        Part::default()
    } else {
        Part { data, tail: if ended { b"\r\n0\r\n\r\n" } else { b"\r\n" } }
    };
    match (ended, part.is_empty()) {
        (true, _) => Some(Gathered::End(part)),
        (_, false) => Some(Gathered::Part(part)),
        (_, true) => None,
    }
}
