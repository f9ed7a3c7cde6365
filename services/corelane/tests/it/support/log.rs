//! The process log, shared by all running servers. Lines contain routes but no server, so tests use
//! unique routes or run alone ([`run_alone`](super::process::run_alone)).

use std::io::{self, Write};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use super::PATIENCE;

static BYTES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

pub(crate) struct Log {
    from: usize,
}

impl Log {
    pub(crate) fn open() -> Log {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| tracing_subscriber::fmt().with_ansi(false).with_writer(|| Writer).init());
        Log { from: BYTES.lock().expect("no writer panics").len() }
    }

    pub(crate) fn wait_for(&self, parts: &[&str]) -> String {
        let begun = Instant::now();
        loop {
            if let Some(line) = self.lines_so_far(parts).into_iter().next() {
                return line;
            }
            let late = begun.elapsed() >= PATIENCE;
            assert!(
                !late,
                "no line with all of {parts:?} in\n{}",
                self.lines_so_far(&[]).join("\n")
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Current lines with all of `parts`, without waiting: for lines that must exist already or
    /// must not appear.
    pub(crate) fn lines_so_far(&self, parts: &[&str]) -> Vec<String> {
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
