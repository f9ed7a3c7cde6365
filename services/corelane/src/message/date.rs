//! The Date header of replies.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::base::clock::Tick;

const SECOND: u64 = 1_000_000_000;

/// The end of a head: the line with the date (RFC 9110 section 6.6.1) and an empty line. It is
/// updated once per second, which reads the wall clock.
#[derive(Debug)]
pub(crate) struct Date {
    lines: String,
    /// When the lines were made, and for how many nanoseconds they are valid.
    read: Tick,
    lasts: u64,
}

impl Date {
    pub(crate) fn new() -> Self {
        Date { lines: String::new(), read: Tick::now(), lasts: 0 }
    }

    /// The lines at `now`, which is the current or a recent time.
    pub(crate) fn at(&mut self, now: Tick) -> &[u8] {
        if now.since(self.read) >= self.lasts {
            self.read = Tick::now();
            self.set(SystemTime::now());
        }
        self.lines.as_bytes()
    }

    fn set(&mut self, now: SystemTime) {
        let into = now.duration_since(UNIX_EPOCH).map_or(0, |passed| passed.subsec_nanos());
        self.lasts = SECOND - u64::from(into);
        let second = now - Duration::from_nanos(u64::from(into));
        self.lines = format!("date: {}\r\n\r\n", httpdate::fmt_http_date(second));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_changes_with_the_second_of_the_wall_clock() {
        let mut date = Date::new();
        let begun = UNIX_EPOCH + Duration::new(784_111_777, 400_000_000);
        date.set(begun);
        let lines = b"date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n";
        assert_eq!(date.lasts, 600_000_000);
        let (last, next) = (date.read.later(599_999_999), date.read.later(600_000_000));
        assert_eq!(date.at(last), lines);
        assert_ne!(date.at(next), lines, "read anew");
    }
}
