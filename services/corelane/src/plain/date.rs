//! The Date of replies.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::clock::Tick;

const SECOND: u64 = 1_000_000_000;

/// The date as text (RFC 9110 section 6.6.1), which stays the same for a second. The wall clock is
/// read once in that time.
#[derive(Debug)]
pub(super) struct Date {
    text: String,
    /// When the text was right, and for how many nanoseconds it is.
    read: Tick,
    lasts: u64,
}

impl Date {
    pub(super) fn new() -> Self {
        Date { text: String::new(), read: Tick::now(), lasts: 0 }
    }

    /// The date at `now`, which is the present or not long before.
    pub(super) fn at(&mut self, now: Tick) -> &str {
        if now.since(self.read) >= self.lasts {
            self.read = Tick::now();
            self.set(SystemTime::now());
        }
        &self.text
    }

    fn set(&mut self, now: SystemTime) {
        let into = now.duration_since(UNIX_EPOCH).map_or(0, |passed| passed.subsec_nanos());
        self.lasts = SECOND - u64::from(into);
        let second = now - Duration::from_nanos(u64::from(into));
        self.text = httpdate::fmt_http_date(second);
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
        assert_eq!(date.text, "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date.lasts, 600_000_000);
        let last = date.read.later(599_999_999);
        assert_eq!(date.at(last), "Sun, 06 Nov 1994 08:49:37 GMT");
        let next = date.read.later(600_000_000);
        assert_ne!(date.at(next), "Sun, 06 Nov 1994 08:49:37 GMT", "read anew");
    }
}
