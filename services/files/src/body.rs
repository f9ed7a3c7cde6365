//! A response body: in memory, or read from disk while it is sent.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::resource::OpenFile;
use crate::stamp::Stamp;

/// Bytes per read. Once the client has accepted a piece, the next one is read while the previous
/// one is sent. Therefore, memory holds one piece for a client that reads nothing and two pieces
/// for a client that stops reading.
const PIECE: u64 = 64 * 1024;

/// A response body: a file, parts of one, or nothing.
#[derive(Debug, Default)]
pub struct Body(Kind);

#[derive(Debug)]
enum Kind {
    Memory(Bytes),
    Disk(Box<Stream>),
}

impl Default for Kind {
    fn default() -> Self {
        Kind::Memory(Bytes::new())
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        Body(Kind::Memory(bytes))
    }
}

/// Part of a body that is not completely in memory.
#[derive(Debug)]
pub(crate) enum Piece {
    Text(Bytes),
    /// A byte range of the file.
    File(Range<u64>),
}

impl Piece {
    fn length(&self) -> u64 {
        match self {
            Piece::Text(bytes) => bytes.len() as u64,
            Piece::File(range) => range.end - range.start,
        }
    }
}

impl Body {
    /// A body made of pieces of a file, which are read while the body is sent.
    pub(crate) fn of(file: Arc<OpenFile>, pieces: impl IntoIterator<Item = Piece>) -> Body {
        let pieces: VecDeque<_> = pieces.into_iter().collect();
        let left = pieces.iter().map(Piece::length).sum();
        Body(Kind::Disk(Box::new(Stream { file, pieces, left, next: None, is_read: false })))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut self.0 {
            Kind::Memory(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Memory(bytes) => Poll::Ready(Some(Ok(Frame::data(mem::take(bytes))))),
            Kind::Disk(stream) => stream.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Memory(bytes) => bytes.is_empty(),
            Kind::Disk(stream) => stream.left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match &self.0 {
            Kind::Memory(bytes) => bytes.len() as u64,
            Kind::Disk(stream) => stream.left,
        })
    }
}

#[derive(Debug)]
struct Stream {
    file: Arc<OpenFile>,
    /// Pieces still to be read.
    pieces: VecDeque<Piece>,
    /// Bytes still to be sent.
    left: u64,
    next: Option<Next>,
    /// Whether the client has accepted a piece, which makes reading ahead worthwhile.
    is_read: bool,
}

#[derive(Debug)]
enum Next {
    Text(Bytes),
    Read(Reading),
}

/// A read on a blocking thread. Dropping it cancels a read that has not started.
#[derive(Debug)]
struct Reading(JoinHandle<io::Result<Bytes>>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Stream {
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.next.is_none() {
            self.next = self.ask();
        }
        let read = match &mut self.next {
            None => return Poll::Ready(None),
            Some(Next::Text(bytes)) => Ok(mem::take(bytes)),
            Some(Next::Read(reading)) => match ready!(Pin::new(&mut reading.0).poll(cx)) {
                Ok(read) => read,
                Err(error) => Err(io::Error::other(error)),
            },
        };
        self.next = None;
        match &read {
            Ok(bytes) => {
                self.left -= bytes.len() as u64;
                if mem::replace(&mut self.is_read, true) {
                    self.next = self.ask();
                }
            }
            // A body ends after an error.
            Err(_) => (self.left, self.pieces) = (0, VecDeque::new()),
        }
        Poll::Ready(Some(read.map(Frame::data)))
    }

    fn ask(&mut self) -> Option<Next> {
        let range = match self.pieces.pop_front()? {
            Piece::Text(bytes) => return Some(Next::Text(bytes)),
            Piece::File(range) => range,
        };
        let end = range.end.min(range.start + PIECE);
        if end < range.end {
            self.pieces.push_front(Piece::File(end..range.end));
        }
        let file = Arc::clone(&self.file);
        Some(Next::Read(Reading(spawn_blocking(move || file.read(range.start..end)))))
    }
}

impl OpenFile {
    /// Reads bytes of the opened version, or fails if that version is gone. A response that has
    /// started must then be aborted, because its client must not get a mixture of two versions.
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.file.read_exact_at(&mut bytes, range.start)?;
        if Stamp::of(&self.file.metadata()?).has_content_of(&self.stamp) {
            Ok(Bytes::from(bytes))
        } else {
            Err(io::Error::other("the file changed while it was sent"))
        }
    }
}
