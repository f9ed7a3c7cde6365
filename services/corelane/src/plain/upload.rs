//! Request bodies that arrive in pieces, on their way from a connection to its service.
//!
//! One piece is held at a time: the next is read once the service has asked for it, so a service
//! that does not read holds its client back (TCP flow control) and costs no memory.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use atomic_waker::AtomicWaker;
use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};

use crate::connection::Connection;
use crate::socket::Socket;

/// The end of a body that its service reads, on any thread.
#[derive(Debug)]
pub(crate) struct BodyReader {
    pipe: Arc<Pipe>,
    /// Bytes that are still to be read.
    left: u64,
}

#[derive(Debug, Default)]
struct Pipe {
    inside: Mutex<Inside>,
    /// The task of the connection.
    connection: AtomicWaker,
}

#[derive(Debug, Default)]
struct Inside {
    piece: Bytes,
    /// The reader waits for a piece.
    reader: Option<Waker>,
    /// No more pieces will come, and this is why.
    failed: Option<io::ErrorKind>,
    /// The reader is gone.
    dropped: bool,
}

impl Pipe {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BodyReader {
    /// Bytes of the body that are still to be read.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Polls for the next piece; `None` at the end of the body.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let mut inside = self.pipe.inside();
        if !inside.piece.is_empty() {
            let piece = std::mem::take(&mut inside.piece);
            self.left -= piece.len() as u64;
            return Poll::Ready(Some(Ok(piece)));
        }
        if let Some(kind) = inside.failed {
            self.left = 0;
            return Poll::Ready(Some(Err(kind.into())));
        }
        inside.reader = Some(cx.waker().clone());
        drop(inside);
        self.pipe.connection.wake();
        Poll::Pending
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        let mut inside = self.pipe.inside();
        inside.dropped = true;
        inside.piece = Bytes::new();
        drop(inside);
        self.pipe.connection.wake();
    }
}

/// The end of a body that its connection fills.
#[derive(Debug)]
pub(super) struct Upload {
    pipe: Arc<Pipe>,
    /// Bytes that are still to come from the client.
    left: u64,
}

/// What came of an attempt to read more of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fed {
    /// The reader has something new: a piece, or the error that ends it.
    Some,
    /// Nothing: the client has sent no more, or the service wants no more.
    None,
}

impl Upload {
    /// A body of `length` bytes, of which `first` has arrived.
    pub(super) fn new(length: u64, first: Bytes) -> (Upload, BodyReader) {
        let pipe = Arc::new(Pipe::default());
        let left = length - first.len() as u64;
        pipe.inside().piece = first;
        (Upload { pipe: Arc::clone(&pipe), left }, BodyReader { pipe, left: length })
    }

    /// Bytes that are still to come from the client.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Whether the client ended the connection in the middle of the body.
    pub(super) fn is_broken(&self) -> bool {
        self.pipe.inside().failed.is_some()
    }

    /// Whether the service has dropped the body.
    pub(super) fn is_dropped(&self) -> bool {
        self.pipe.inside().dropped
    }

    /// Whether a piece that is read now would be taken: the service waits for it, or what is left
    /// is discarded.
    fn is_wanted(&self, cx: &Context<'_>) -> bool {
        // Registered first, so that no request for a piece is missed.
        self.pipe.connection.register(cx.waker());
        let inside = self.pipe.inside();
        inside.failed.is_none() && (inside.dropped || inside.reader.is_some())
    }

    /// Reads a piece, from `unread` first, if the service wants one. `buffer` is room to read into.
    pub(super) fn feed(
        &mut self,
        socket: &mut Socket,
        connection: &Connection,
        unread: &mut Bytes,
        buffer: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Fed {
        while self.left > 0 && self.is_wanted(cx) {
            let most = usize::try_from(self.left).unwrap_or(usize::MAX);
            let piece = if unread.is_empty() {
                let room = buffer.len().min(most);
                let mut space = ReadBuf::new(&mut buffer[..room]);
                match Pin::new(&mut *socket).poll_read(cx, &mut space) {
                    Poll::Pending => return Fed::None,
                    Poll::Ready(Ok(())) if space.filled().is_empty() => {
                        connection.set_ended();
                        return self.fail(io::ErrorKind::UnexpectedEof);
                    }
                    Poll::Ready(Ok(())) => Bytes::copy_from_slice(space.filled()),
                    Poll::Ready(Err(error)) => {
                        connection.set_gone();
                        return self.fail(error.kind());
                    }
                }
            } else {
                unread.split_to(unread.len().min(most))
            };
            self.left -= piece.len() as u64;
            if self.give(piece) {
                return Fed::Some;
            }
        }
        Fed::None
    }

    /// Hands a piece to the service; whether it was not discarded.
    fn give(&self, piece: Bytes) -> bool {
        let mut inside = self.pipe.inside();
        if inside.dropped {
            return false;
        }
        inside.piece = piece;
        let reader = inside.reader.take();
        drop(inside);
        reader.into_iter().for_each(Waker::wake);
        true
    }

    fn fail(&self, kind: io::ErrorKind) -> Fed {
        let mut inside = self.pipe.inside();
        inside.failed = Some(kind);
        let reader = inside.reader.take();
        drop(inside);
        reader.into_iter().for_each(Waker::wake);
        Fed::Some
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.left > 0 {
            // Whoever reads it elsewhere must not wait for ever.
            self.fail(io::ErrorKind::ConnectionAborted);
        }
    }
}
