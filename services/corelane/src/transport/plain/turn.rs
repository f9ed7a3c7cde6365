//! The turn of a connection: it reads, answers and writes until it has to wait.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};

use super::{Flow, Stage};
use crate::os::socket::Socket;
use crate::request::connection::{Closing, Connection};
use crate::request::service::HttpService;
use crate::request::upload::Upload;
use crate::transport::host::LaneService;
use crate::transport::stream::read_ahead;

/// Maximum requests per turn of a connection, so that other tasks run in between.
pub(super) const REQUESTS: u32 = 32;

/// A turn of a connection.
pub(super) struct Turn<'a, S: HttpService> {
    pub(super) socket: &'a mut Socket,
    pub(super) connection: &'a Rc<Connection>,
    pub(super) host: &'a LaneService<S>,
    /// Requests that may still be answered in this turn.
    pub(super) left: u32,
}

/// Bytes that the client sent after the head of the current request.
#[derive(Default)]
pub(super) struct Input {
    /// Bytes that were read and not parsed.
    pub(super) unread: Bytes,
    /// The body of the request, until all of it has arrived.
    pub(super) upload: Option<Upload>,
}

/// Result of reading more of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fed {
    /// The reader has a new piece, or the error that ends the body.
    Some,
    /// The client has sent nothing, or the service does not want more yet.
    None,
}

/// Result of reading from the client while its request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The service has a new piece of the request body.
    More,
    Nothing,
    /// The client is gone.
    End,
}

impl<S: HttpService> Turn<'_, S> {
    /// The client has closed its side, and nothing is in flight.
    pub(super) fn ended(&self) -> Stage<S> {
        match self.socket {
            Socket::Plain(_) => Stage::Broken,
            // RFC 8446 section 6.1: each side says that it ends.
            Socket::Tls(_) => Stage::Leaving(Closing::at_rest()),
        }
    }

    /// Reads more of the body of a request that waits, or notices that its client disconnected.
    pub(super) fn listen(&mut self, input: &mut Input, cx: &mut Context<'_>) -> Heard {
        if self.feed(input, cx) == Fed::Some {
            return Heard::More;
        }
        if self.connection.waits_for_service() {
            read_ahead(self.socket, self.connection, &mut input.unread, cx);
        }
        if self.connection.is_deserted() { Heard::End } else { Heard::Nothing }
    }

    pub(super) fn feed(&mut self, input: &mut Input, cx: &mut Context<'_>) -> Fed {
        let Input { unread, upload: Some(upload) } = input else { return Fed::None };
        let mut buffer = self.host.buffers.take_input();
        let fed = feed(upload, unread, self.socket, self.connection, &mut buffer, cx);
        self.host.buffers.return_input(buffer);
        if upload.left() == 0 {
            input.upload = None;
        }
        fed
    }

    /// Ends the connection from our side.
    pub(super) fn leave(&mut self, mut closing: Closing, cx: &mut Context<'_>) -> Flow<S> {
        match closing.poll(self.socket, self.connection, cx) {
            Poll::Pending => Flow::Wait(Stage::Leaving(closing)),
            Poll::Ready(_) => Flow::Go(Stage::Broken),
        }
    }

    /// Makes closing the socket discard what the client does not read.
    pub(super) fn reset(&mut self) {
        self.connection.set_reset();
        // Fails only if the socket is closed.
        let _ = self.socket.set_zero_linger();
    }
}

/// Reads a piece of a body if the service wants one: from `unread` first, then from the socket by way
/// of `buffer`.
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

/// Logs an error that ends the connection.
pub(super) fn broken<S: HttpService>(error: &dyn Error) -> Stage<S> {
    tracing::debug!(%error, "a connection ended early");
    Stage::Broken
}
