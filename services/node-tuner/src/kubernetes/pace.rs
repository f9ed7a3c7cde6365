//! Limits how often an event is written, because two programs may change a setting in every pass.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::events::{Message, Reason};

/// Minimum time between two writes of the same event. Meanwhile it is counted.
const PAUSE: Duration = Duration::from_secs(5 * 60);

/// Events to write, and when equal ones were written last.
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
    /// Adds an event. The last message replaces earlier ones.
    pub(super) fn add(&mut self, message: Message) {
        let waiting = self.events.entry((message.reason, message.subject)).or_default();
        waiting.words = message.words;
        waiting.count = waiting.count.saturating_add(1);
    }

    /// An event that may be written now, and how often it has occurred since the last write.
    pub(super) fn due(&self, now: Instant) -> Option<(Message, i32)> {
        let due = |it: &Waiting| {
            it.count > 0 && it.told.is_none_or(|told| now.duration_since(told) >= PAUSE)
        };
        let ((reason, subject), waiting) = self.events.iter().find(|(_, it)| due(it))?;
        let words = waiting.words.clone();
        Some((Message { reason: *reason, subject: subject.clone(), words }, waiting.count))
    }

    /// Removes an event that was written or dropped.
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
        // Not written yet, so it stays.
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
