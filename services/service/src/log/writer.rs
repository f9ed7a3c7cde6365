//! Writes lines on a separate thread, so that a blocked log does not stop a lane.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Maximum number of queued lines; additional lines are dropped. The queue grows with its contents,
/// because preallocating this length would take 4 MB in every server.
const MOST: usize = 128_000;

const PATIENCE: Duration = Duration::from_secs(1);

/// Maximum time to wait for the line of a panic.
const SOON: Duration = Duration::from_millis(100);

enum Message {
    Line(Vec<u8>),
    /// A marker. The sender is dropped once everything before the marker has been written.
    Reached(Sender<()>),
    /// The last message. The sender is dropped once everything before the message has been written,
    /// which ends the wait.
    End(Sender<()>),
}

#[derive(Debug)]
pub(super) struct Writer {
    lines: Sender<Message>,
    waiting: Arc<AtomicUsize>,
    most: usize,
}

/// Writes the remaining lines when dropped, for at most a second.
#[derive(Debug)]
#[must_use]
pub struct Flush(Sender<Message>);

pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<(Writer, Flush)> {
    start_with(out, MOST)
}

fn start_with(out: impl Write + Send + 'static, most: usize) -> io::Result<(Writer, Flush)> {
    let (lines, received) = channel();
    let waiting = Arc::<AtomicUsize>::default();
    let writer = Writer { lines: lines.clone(), waiting: Arc::clone(&waiting), most };
    let thread = std::thread::Builder::new().name("log".to_owned());
    thread.spawn(move || write_all(out, &received, &waiting))?;
    Ok((writer, Flush(lines)))
}

fn write_all(mut out: impl Write, lines: &Receiver<Message>, waiting: &AtomicUsize) {
    for message in lines {
        match message {
            Message::Line(line) => {
                // An error in the log itself cannot be logged.
                let _ = out.write_all(&line);
                waiting.fetch_sub(1, Relaxed);
            }
            Message::Reached(reached) => drop(reached),
            Message::End(end) => return drop(end),
        }
    }
}

impl Write for &Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.waiting.fetch_add(1, Relaxed) < self.most {
            // Fails if the thread has exited.
            let _ = self.lines.send(Message::Line(line.to_vec()));
        } else {
            self.waiting.fetch_sub(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Writer {
    type Writer = &'a Writer;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

/// Waits for lines without ending the log.
#[derive(Clone, Debug)]
pub(super) struct Written(Sender<Message>);

impl Flush {
    pub(super) fn written(&self) -> Written {
        Written(self.0.clone())
    }
}

impl Written {
    /// Waits until all previous lines are written, but only for a short time, because a blocked log
    /// must not stop a lane.
    pub(super) fn wait(&self) {
        let (reached, ended) = channel();
        if self.0.send(Message::Reached(reached)).is_ok() {
            let _ = ended.recv_timeout(SOON);
        }
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        let (end, ended) = channel();
        if self.0.send(Message::End(end)).is_ok() {
            let _ = ended.recv_timeout(PATIENCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A file that accepts a line only when the test allows it.
    struct Slow(Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Slow {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.lock().expect("no panic").write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow() -> (Slow, Sender<()>, Arc<Mutex<Vec<u8>>>) {
        let (allow, allowed) = channel();
        let written = Arc::<Mutex<Vec<u8>>>::default();
        (Slow(allowed, Arc::clone(&written)), allow, written)
    }

    #[test]
    fn what_waits_is_written_before_the_end() {
        let (file, allow, written) = slow();
        let (writer, flush) = start_with(file, 100).expect("a thread");
        for line in ["one\n", "two\n", "three\n"] {
            writer.make_writer().write_all(line.as_bytes()).expect("it never fails");
        }
        drop(allow);
        drop(flush);
        assert_eq!(*written.lock().expect("no panic"), b"one\ntwo\nthree\n");
        writer.make_writer().write_all(b"late\n").expect("nor after the end");
    }

    #[test]
    fn nobody_waits_for_a_log_that_is_not_read() {
        let (file, allow, written) = slow();
        let (writer, flush) = start_with(file, 3).expect("a thread");
        for line in ["1\n", "2\n", "3\n", "4\n", "5\n"] {
            writer.make_writer().write_all(line.as_bytes()).expect("it never fails");
        }
        drop(allow);
        drop(flush);
        assert_eq!(*written.lock().expect("no panic"), b"1\n2\n3\n");
    }
}
