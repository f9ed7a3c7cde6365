//! Request bodies that arrive in pieces: a channel from the connection to the service.
//!
//! The channel holds one piece, and the connection reads the next piece when the service polls for
//! it. A service that does not read therefore slows down its client through TCP flow control and
//! does not use more memory.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use atomic_waker::AtomicWaker;
use bytes::Bytes;

/// Maximum bytes of an unread request body to discard in order to keep the connection. Discarding
/// more costs more than a new connection.
pub(crate) const DISCARDED: u64 = 64 * 1024;

/// The receiving end, from which the service reads on any thread.
#[derive(Debug)]
pub(crate) struct BodyReader {
    pipe: Arc<Pipe>,
    left: u64,
}

#[derive(Debug, Default)]
struct Pipe {
    inside: Mutex<PipeState>,
    connection: AtomicWaker,
}

#[derive(Debug, Default)]
struct PipeState {
    piece: Bytes,
    /// Set while the reader is waiting for a piece.
    reader: Option<Waker>,
    failed: Option<io::ErrorKind>,
    /// Bytes still unread when the service dropped the body.
    unread: Option<u64>,
}

impl Pipe {
    fn inside(&self) -> MutexGuard<'_, PipeState> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BodyReader {
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

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
        let told = inside.reader.replace(cx.waker().clone()).is_some();
        drop(inside);
        // The connection is woken only once per piece. It polls the service in its own task, so
        // each wake-up would otherwise cause another one.
        if !told {
            self.pipe.connection.wake();
        }
        Poll::Pending
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        let mut inside = self.pipe.inside();
        inside.unread = Some(self.left);
        inside.piece = Bytes::new();
        drop(inside);
        self.pipe.connection.wake();
    }
}

#[derive(Debug)]
pub(crate) struct Upload {
    pipe: Arc<Pipe>,
    left: u64,
}

impl Upload {
    /// `length` is the size of the body, and `first` is the part that has arrived.
    pub(crate) fn new(length: u64, first: Bytes) -> (Upload, BodyReader) {
        let pipe = Arc::new(Pipe::default());
        let left = length - first.len() as u64;
        pipe.inside().piece = first;
        (Upload { pipe: Arc::clone(&pipe), left }, BodyReader { pipe, left: length })
    }

    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Whether the client disconnected within the body.
    pub(crate) fn is_broken(&self) -> bool {
        self.pipe.inside().failed.is_some()
    }

    /// Whether the service has dropped a body with too much unread data. Such a body is not
    /// discarded, even if it has arrived.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.pipe.inside().unread.is_some_and(|unread| unread > DISCARDED)
    }

    /// Whether to read a piece now: the service is waiting for it, or has dropped the body and the
    /// rest is small enough to discard.
    pub(crate) fn is_wanted(&self, cx: &Context<'_>) -> bool {
        // Registered before the check, so that no wake-up is missed.
        self.pipe.connection.register(cx.waker());
        let inside = self.pipe.inside();
        let discards = inside.unread.is_some_and(|unread| unread <= DISCARDED);
        inside.failed.is_none() && (discards || inside.reader.is_some())
    }

    /// Passes a piece of at most [`Upload::left`] bytes to the service. Returns `false` if the
    /// piece was discarded.
    pub(crate) fn give(&mut self, piece: Bytes) -> bool {
        self.left -= piece.len() as u64;
        let mut inside = self.pipe.inside();
        if inside.unread.is_some() {
            return false;
        }
        inside.piece = piece;
        let reader = inside.reader.take();
        drop(inside);
        reader.into_iter().for_each(Waker::wake);
        true
    }

    pub(crate) fn fail(&self, kind: io::ErrorKind) {
        let mut inside = self.pipe.inside();
        inside.failed = Some(kind);
        let reader = inside.reader.take();
        drop(inside);
        reader.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.left > 0 {
            // A reader on another thread must not wait for bytes that cannot arrive.
            self.fail(io::ErrorKind::ConnectionAborted);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_reader_that_waits_wakes_its_connection_once_per_piece() {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let cx = &mut Context::from_waker(&waker);
        let (mut upload, mut reader) = Upload::new(2, Bytes::new());
        for piece in 1..=2 {
            assert!(!upload.is_wanted(cx));
            for _ in 0..3 {
                assert!(reader.poll_piece(cx).is_pending());
                assert!(upload.is_wanted(cx));
            }
            assert_eq!(wakes.0.swap(0, Ordering::Relaxed), 1, "of the connection, {piece}");
            assert!(upload.give(Bytes::from_static(b"a")));
            assert_eq!(wakes.0.swap(0, Ordering::Relaxed), 1, "of the reader, {piece}");
            assert!(matches!(reader.poll_piece(cx), Poll::Ready(Some(Ok(_)))));
        }
    }
}
