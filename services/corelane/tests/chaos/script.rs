//! Scripts: the requests a client sends, and what it does afterwards.

use std::fmt;

use fastrand::Rng;

use crate::ledger::Ledger;
use crate::recipe::{Carry, Recipe, Take};

const LONGEST: usize = 600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    Mixed,
    /// Plain requests, one at a time.
    Single,
    Long,
    /// Two requests whose bodies are read late. The second request is split in two.
    Late,
    /// A mix of all requests, mostly HTTP/1.0.
    Old,
    /// Mostly plain requests, but one in fifty moves its connection to hyper.
    Usual,
}

pub(crate) struct Script {
    pub(crate) requests: Vec<Recipe>,
    pub(crate) ending: Ending,
    /// Position at which the script is split; `None` means anywhere.
    pub(crate) cut: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Open,
    Last,
    /// Shuts down the write side after the last request.
    HalfClose,
    /// Invalid bytes follow the last request.
    Nonsense,
    Vanish,
}

const NONSENSE: &[u8] = b"GET\x01/ HTTP/1.1\r\nHost: chaos\r\n\r\n";

impl Script {
    /// Creates a script and records its requests in the ledger.
    pub(crate) fn any(habit: Habit, ledger: &Ledger, rng: &mut Rng) -> Script {
        let chance = rng.u8(0..40);
        match habit {
            Habit::Late => return Script::late(ledger, rng),
            Habit::Mixed | Habit::Usual if chance == 0 => return Script::late(ledger, rng),
            Habit::Mixed | Habit::Usual if chance == 1 => return Script::dropped(ledger, rng),
            _ => {}
        }
        let ending = match rng.u8(0..100) {
            _ if habit == Habit::Long => Ending::Open,
            0..3 => Ending::Last,
            3 => Ending::HalfClose,
            4 => Ending::Nonsense,
            5 => Ending::Vanish,
            _ => Ending::Open,
        };
        let count = match rng.u16(0..1000) {
            _ if habit == Habit::Single => 1,
            _ if habit == Habit::Long => rng.usize(200..=LONGEST),
            _ if habit == Habit::Old => rng.usize(2..12),
            0 => rng.usize(50..=LONGEST),
            1..120 => rng.usize(2..12),
            _ => 1,
        };
        let simple = count > 50 || ending == Ending::HalfClose;
        let requests = (0..count).map(|_| {
            let number = ledger.issue();
            match habit {
                _ if simple => Recipe::simple(number),
                Habit::Old => Recipe::old(number, rng),
                Habit::Single => Recipe::plain(number, rng),
                Habit::Usual if rng.u8(0..50) > 0 => Recipe::plain(number, rng),
                _ => Recipe::any(number, rng),
            }
        });
        let mut requests: Vec<_> = requests.collect();
        if ending == Ending::Last {
            let last = requests.last_mut().expect("there is one");
            *last = last.last(rng);
        }
        Script { requests, ending, cut: None }
    }

    /// Two requests whose bodies are read after both responses. The second request is split inside
    /// its body.
    fn late(ledger: &Ledger, rng: &mut Rng) -> Script {
        let late = |length| {
            let number = ledger.issue();
            Recipe { carry: Carry::Length(length), take: Take::Late, ..Recipe::simple(number) }
        };
        let requests = vec![late(80), late(400)];
        let mut script = Script { requests, ending: Ending::Open, cut: None };
        script.cut = Some(script.words().len() - rng.usize(1..400));
        script
    }

    /// Complete bodies that no handler reads, which keep the connection open.
    fn dropped(ledger: &Ledger, rng: &mut Rng) -> Script {
        let requests = (0..rng.usize(1..4)).map(|_| {
            let carry = Carry::Length(rng.usize(1..200));
            Recipe { carry, take: Take::Drop, ..Recipe::simple(ledger.issue()) }
        });
        let requests = requests.collect();
        let mut script = Script { requests, ending: Ending::Open, cut: None };
        script.cut = Some(script.words().len());
        script
    }

    /// True if the last request is a HEAD: an error response may then lack a body.
    pub(crate) fn asks_head(&self) -> bool {
        self.requests.iter().any(|recipe| recipe.head_only)
    }

    pub(crate) fn words(&self) -> Vec<u8> {
        let mut words = Vec::new();
        for recipe in &self.requests {
            let (head, body) = recipe.words("");
            words.extend(head);
            words.extend(body);
        }
        if self.ending == Ending::Nonsense {
            words.extend(NONSENSE);
        }
        words
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.requests.first(), self.requests.last());
        let (count, ending) = (self.requests.len(), self.ending);
        write!(f, "{count} requests, {first:?} to {last:?}, {ending:?}")
    }
}
