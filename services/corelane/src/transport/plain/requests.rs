//! Reads requests and passes them to the service.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::{Request, StatusCode};
use tokio::io::{AsyncRead, ReadBuf};

use super::writing::Part;
use super::{Answering, Flow, PlainTurn, Stage, broken};
use crate::message::head::Found;
use crate::message::problem::Problem;
use crate::os::socket::Socket;
use crate::request::body::Incoming;
use crate::request::connection::Connection;
use crate::request::reply::Reply;
use crate::request::service::{HttpService, Unserved};
use crate::request::upload::Upload;
use crate::transport::buffers::ReplyState;
use crate::transport::final_response::final_response;
use crate::transport::host::LaneService;
use crate::transport::stream::read_ahead;

/// Approximate size limit of a batch of pipelined responses.
const TOGETHER: usize = 32 * 1024;

/// The bytes that the client sent after the current request's head.
#[derive(Default)]
pub(super) struct Input {
    /// Bytes that have been read but not parsed.
    pub(super) unread: Bytes,
    /// The request body until all of it has arrived.
    pub(super) upload: Option<Upload>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fed {
    /// The reader has a new piece, or the error that ends the body.
    Some,
    /// The client has sent nothing, or the service is not ready for more yet.
    None,
}

/// The result of reading from the client while its request is waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    More,
    Nothing,
    End,
}

impl<S: HttpService> PlainTurn<'_, S> {
    pub(super) fn read(&mut self, cx: &mut Context<'_>) -> Flow<S> {
        let mut input = self.host.buffers.take_input();
        let mut space = ReadBuf::new(&mut input);
        let polled = Pin::new(&mut *self.socket).poll_read(cx, &mut space);
        let came = space.filled().len();
        let step = match polled {
            Poll::Pending => {
                if self.ready {
                    self.batch();
                }
                Flow::Wait(Stage::Idle)
            }
            Poll::Ready(Ok(())) if came > 0 => self.serve(&input[..came], None, cx),
            Poll::Ready(Ok(())) if mem::take(&mut self.ready) => {
                self.write(self.host.buffers.take_ready(), Part::default(), self.ended(), cx)
            }
            Poll::Ready(Ok(())) => Flow::Go(self.ended()),
            Poll::Ready(Err(error)) => Flow::Go(broken(&error)),
        };
        self.host.buffers.return_input(input);
        step
    }

    pub(super) fn read_on(&mut self, mut head: Box<BytesMut>, cx: &mut Context<'_>) -> Flow<S> {
        self.connection.received();
        let mut input = self.host.buffers.take_input();
        let mut space = ReadBuf::new(&mut input);
        let step = match Pin::new(&mut *self.socket).poll_read(cx, &mut space) {
            Poll::Pending => Flow::Wait(Stage::Head(head)),
            // hyper decides how to respond to an incomplete head.
            Poll::Ready(Ok(())) if space.filled().is_empty() => {
                Flow::Go(Stage::HandOver(Box::new(head.freeze())))
            }
            Poll::Ready(Ok(())) => {
                head.extend_from_slice(space.filled());
                Flow::Go(Stage::unread(head.freeze()))
            }
            Poll::Ready(Err(error)) => Flow::Go(broken(&error)),
        };
        self.host.buffers.return_input(input);
        step
    }

    /// Responds to the requests in `bytes` in order. `held` is the buffer of `bytes` if the next
    /// turn may reuse it.
    pub(super) fn serve(
        &mut self,
        bytes: &[u8],
        held: Option<&Bytes>,
        cx: &mut Context<'_>,
    ) -> Flow<S> {
        let keep = |rest: &[u8]| match held {
            _ if rest.is_empty() => Bytes::new(),
            Some(held) => held.slice_ref(rest),
            None => Bytes::copy_from_slice(rest),
        };
        let buffers = &self.host.buffers;
        let mut out = match mem::take(&mut self.ready) {
            true => buffers.take_ready(),
            false => buffers.take_output(),
        };
        let mut rest = bytes;
        let mut place = None;
        while !rest.is_empty() && out.len() < TOGETHER && self.left > 0 {
            let (length, upload, request) = match self.request(rest, &mut place) {
                Ok(found) => found,
                Err(Found::Partial) => {
                    let head = Box::new(BytesMut::from(rest));
                    return self.write(out, Part::default(), Stage::Head(head), cx);
                }
                Err(_) => {
                    let over = Box::new(keep(rest));
                    return self.write(out, Part::default(), Stage::HandOver(over), cx);
                }
            };
            self.left -= 1;
            let behind = &rest[length..];
            let mut reply_slot = buffers.take_reply_slot();
            let LaneService { lane, service, .. } = self.host;
            let reply = Reply::plain(service, lane, self.connection, request, upload.is_some());
            reply_slot.set(ReplyState::Reply { reply });
            let Poll::Ready(Ok(made)) = reply_slot.as_mut().poll_reply(cx) else {
                let input = Input { unread: keep(behind), upload };
                let answering = Answering { reply_slot, input, polled: true };
                let next = Stage::Answering(Box::new(answering));
                return self.write(out, Part::default(), next, cx);
            };
            let encoding = self.encode(reply_slot, made, &mut out, ends(upload.as_ref()), cx);
            if upload.is_some() || !encoding.is_whole() {
                let input = Input { unread: keep(behind), upload };
                let (part, next) = self.follow(encoding, input);
                return self.write(out, part, next, cx);
            }
            rest = behind;
        }
        self.write(out, Part::default(), Stage::unread(keep(rest)), cx)
    }

    /// Reads the plain request at the start of `bytes` into `place`. Returns the number of bytes
    /// that belong to the request, and the upload for any part of its body that has not arrived.
    fn request<'p>(
        &self,
        bytes: &[u8],
        place: &'p mut Option<Request<Incoming>>,
    ) -> Result<(usize, Option<Upload>, Unserved<'p>), Found> {
        let buffers = &self.host.buffers;
        let mut head = buffers.head.borrow_mut();
        let found = head.read(bytes, &self.host.lane.limits);
        let Found::Plain { head: length, body } = found else { return Err(found) };
        let mut memory = buffers.heads.borrow_mut();
        let (read, came) =
            head.request(bytes, &mut memory, buffers.take_fields()).ok_or(Found::Other)?;
        let (there, mut upload) = (length + came.len(), None);
        let incoming = if came.len() == body {
            Incoming::whole(came)
        } else {
            let (filled, reader) = Upload::new(body as u64, came);
            upload = Some(filled);
            Incoming::arriving(reader)
        };
        Ok((there, upload, Unserved::new(place, read.map(|()| incoming))))
    }

    /// Continues a response that is not ready.
    pub(super) fn answer(
        &mut self,
        mut answering: Box<Answering<S>>,
        cx: &mut Context<'_>,
    ) -> Flow<S> {
        loop {
            if !mem::take(&mut answering.polled)
                && let Poll::Ready(Ok(made)) = answering.reply_slot.as_mut().poll_reply(cx)
            {
                let Answering { reply_slot, input, .. } = *answering;
                let mut out = self.host.buffers.take_output();
                let ends = ends(input.upload.as_ref());
                let encoding = self.encode(reply_slot, made, &mut out, ends, cx);
                let (part, next) = self.follow(encoding, input);
                return self.write(out, part, next, cx);
            }
            match self.listen(&mut answering.input, cx) {
                Heard::More => {}
                Heard::Nothing => return Flow::Wait(Stage::Answering(answering)),
                Heard::End => return Flow::Go(Stage::Broken),
            }
        }
    }

    pub(super) fn listen(&mut self, input: &mut Input, cx: &mut Context<'_>) -> Heard {
        if self.feed(input, cx) == Fed::Some {
            return Heard::More;
        }
        if self.connection.waits_for_service() {
            read_ahead(self.socket, self.connection, &mut input.unread, cx);
        }
        if self.connection.is_deserted() { Heard::End } else { Heard::Nothing }
    }

    fn feed(&mut self, input: &mut Input, cx: &mut Context<'_>) -> Fed {
        let Input { unread, upload: Some(upload) } = input else { return Fed::None };
        let mut buffer = self.host.buffers.take_input();
        let fed = feed(upload, unread, self.socket, self.connection, &mut buffer, cx);
        self.host.buffers.return_input(buffer);
        if upload.left() == 0 {
            input.upload = None;
        }
        fed
    }

    /// Reads the rest of a body after the response, either for a service that is still reading it
    /// or to find the next request.
    pub(super) fn discard(&mut self, mut input: Box<Input>, cx: &mut Context<'_>) -> Flow<S> {
        self.connection.await_body();
        loop {
            let fed = self.feed(&mut input, cx);
            if fed == Fed::Some {
                self.connection.received_body();
            }
            match &input.upload {
                None => {
                    self.connection.await_request();
                    return Flow::Go(Stage::unread(input.unread));
                }
                Some(upload) if upload.is_broken() => return Flow::Go(self.ended()),
                Some(upload) if upload.is_abandoned() => return Flow::Go(Stage::closing()),
                Some(_) if fed == Fed::None => return Flow::Wait(Stage::Discarding(input)),
                Some(_) => {}
            }
        }
    }

    /// Responds to a head that timed out (RFC 9110 section 15.5.9), and ends the connection.
    pub(super) fn time_out(&mut self, head: &[u8], cx: &mut Context<'_>) -> Flow<S> {
        let problem = Problem::from(StatusCode::REQUEST_TIMEOUT);
        let out = final_response(&self.host.lane, problem, !head.starts_with(b"HEAD "));
        self.write(out, Part::default(), Stage::closing(), cx)
    }
}

/// Whether the connection must end with the response, because the rest of the request body cannot
/// be read or is too large to discard.
fn ends(upload: Option<&Upload>) -> bool {
    upload.is_some_and(|upload| upload.is_broken() || upload.is_abandoned())
}

/// Feeds a piece to a service that wants it: first from `unread`, then from the socket through
/// `buffer`.
fn feed(
    upload: &mut Upload,
    unread: &mut Bytes,
    socket: &mut Socket,
    connection: &Connection,
    buffer: &mut [u8],
    cx: &mut Context<'_>,
) -> Fed {
    while upload.left() > 0 && upload.is_wanted(cx) {
        let most = usize::try_from(upload.left()).unwrap_or(usize::MAX);
        let piece = if unread.is_empty() {
            let room = buffer.len().min(most);
            let mut space = ReadBuf::new(&mut buffer[..room]);
            match Pin::new(&mut *socket).poll_read(cx, &mut space) {
                Poll::Pending => return Fed::None,
                Poll::Ready(Ok(())) if space.filled().is_empty() => {
                    connection.set_ended();
                    upload.fail(io::ErrorKind::UnexpectedEof);
                    return Fed::Some;
                }
                Poll::Ready(Ok(())) => Bytes::copy_from_slice(space.filled()),
                Poll::Ready(Err(error)) => {
                    connection.set_gone();
                    upload.fail(error.kind());
                    return Fed::Some;
                }
            }
        } else {
            unread.split_to(unread.len().min(most))
        };
        if upload.give(piece) {
            return Fed::Some;
        }
    }
    Fed::None
}
