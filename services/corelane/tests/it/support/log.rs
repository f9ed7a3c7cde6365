//! What this process logs. Tests share it, so each looks for lines that only it can cause.

use std::io::{self, Write};
use std::sync::{Mutex, Once};

static BYTES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// The log from one moment on.
pub(crate) struct Log {
    from: usize,
}

impl Log {
    pub(crate) fn open() -> Log {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| tracing_subscriber::fmt().with_ansi(false).with_writer(|| Writer).init());
        Log { from: BYTES.lock().expect("no writer panics").len() }
    }

    /// Lines with all of `parts`.
    pub(crate) fn lines(&self, parts: &[&str]) -> Vec<String> {
        let bytes = BYTES.lock().expect("no writer panics")[self.from..].to_vec();
        let text = String::from_utf8(bytes).expect("text");
        let has_all = |line: &&str| parts.iter().all(|part| line.contains(part));
        text.lines().filter(has_all).map(str::to_owned).collect()
    }
}

struct Writer;

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        BYTES.lock().expect("no writer panics").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
