//! How often an event is written: two programs may fight over a setting at every pass.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::events::{Message, Reason};

/// Shortest time between two writings of the same event; meanwhile it is counted here.
const PAUSE: Duration = Duration::from_secs(5 * 60);

/// Events that wait to be reported, and when equal ones were reported last.
#[derive(Debug, Default)]
pub(super) struct Pace {
    events: BTreeMap<(Reason, String), Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    words: String,
    count: i32,
    told: Option<Instant>,
}

impl Pace {
    /// One more to tell: the last words count.
    pub(super) fn add(&mut self, message: Message) {
        let waiting = self.events.entry((message.reason, message.subject)).or_default();
        waiting.words = message.words;
        waiting.count = waiting.count.saturating_add(1);
    }

    /// One that may be reported now, and how often it has happened since the last report.
    pub(super) fn due(&self, now: Instant) -> Option<(Message, i32)> {
        let due = |it: &Waiting| {
            it.count > 0 && it.told.is_none_or(|told| now.duration_since(told) >= PAUSE)
        };
        let ((reason, subject), waiting) = self.events.iter().find(|(_, it)| due(it))?;
        let words = waiting.words.clone();
        Some((Message { reason: *reason, subject: subject.clone(), words }, waiting.count))
    }

    /// It is reported, or never will be.
    pub(super) fn done(&mut self, message: Message, now: Instant) {
        let done = Waiting { told: Some(now), ..Waiting::default() };
        self.events.insert((message.reason, message.subject), done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(subject: &str, words: &str) -> Message {
        let (subject, words) = (subject.to_owned(), words.to_owned());
        Message { reason: Reason::KnobDrifted, subject, words }
    }

    #[test]
    fn what_happens_all_the_time_is_told_every_five_minutes() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        pace.add(message("a", "first"));
        assert_eq!(pace.due(begin), Some((message("a", "first"), 1)));
        // Not told yet: it stays.
        assert_eq!(pace.due(begin), Some((message("a", "first"), 1)));
        pace.done(message("a", "first"), begin);
        assert_eq!(pace.due(begin + PAUSE), None);
        pace.add(message("a", "second"));
        pace.add(message("a", "third"));
        let early = begin + PAUSE - Duration::from_secs(1);
        assert_eq!(pace.due(early), None);
        pace.add(message("b", "another"));
        assert_eq!(pace.due(early), Some((message("b", "another"), 1)));
        assert_eq!(pace.due(begin + PAUSE), Some((message("a", "third"), 2)));
    }
}
