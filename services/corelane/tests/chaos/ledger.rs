//! Ledger of requests sent, executed and answered, keyed by a number that all three sides know.

use std::sync::{Mutex, MutexGuard};

/// Maximum number of fault messages to keep.
const NAMED: usize = 12;

#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    requests: Vec<Entry>,
    answered: usize,
    faults: usize,
    named: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    executed: u8,
    answered: u8,
    given_up: bool,
}

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) faults: usize,
    named: Vec<String>,
}

impl Report {
    pub(crate) fn assert_clean(&self, what: &str) {
        assert!(self.faults == 0, "{what}: {} faults:\n{}", self.faults, self.named.join("\n"));
    }
}

impl Ledger {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().expect("nobody panics with it")
    }

    pub(crate) fn issue(&self) -> u64 {
        let requests = &mut self.book().requests;
        requests.push(Entry::default());
        requests.len() as u64 - 1
    }

    pub(crate) fn execute(&self, number: u64) {
        match self.entry(number, |entry| entry.executed += 1) {
            Some(Entry { executed: 1, .. }) => {}
            Some(_) => self.fault(format!("request {number} is executed again")),
            None => self.fault(format!("request {number} is executed, which nobody sent")),
        }
    }

    pub(crate) fn is_executed(&self, number: u64) -> bool {
        self.entry(number, |_| {}).is_some_and(|entry| entry.executed > 0)
    }

    pub(crate) fn answer(&self, number: u64) {
        self.entry(number, |entry| entry.answered += 1);
        self.book().answered += 1;
    }

    /// The client stopped waiting for this response, and may have read part of it.
    pub(crate) fn give_up(&self, number: u64) {
        self.entry(number, |entry| entry.given_up = true);
    }

    fn entry(&self, number: u64, change: impl FnOnce(&mut Entry)) -> Option<Entry> {
        let mut book = self.book();
        let entry = book.requests.get_mut(usize::try_from(number).ok()?)?;
        change(entry);
        Some(*entry)
    }

    pub(crate) fn fault(&self, what: String) {
        let mut book = self.book();
        book.faults += 1;
        if book.named.len() < NAMED {
            book.named.push(what);
        }
    }

    pub(crate) fn faults(&self) -> usize {
        self.book().faults
    }

    pub(crate) fn answered(&self) -> usize {
        self.book().answered
    }

    /// Final check: every executed request was answered once, and every answered request was
    /// executed.
    pub(crate) fn close(&self) -> Report {
        let requests = self.book().requests.clone();
        for (number, entry) in requests.iter().enumerate() {
            let Entry { executed, answered, given_up } = *entry;
            if executed != answered && !(given_up && answered == 0) {
                self.fault(format!("request {number}: executed {executed}, answered {answered}"));
            }
        }
        let book = self.book();
        Report { faults: book.faults, named: book.named.clone() }
    }
}
