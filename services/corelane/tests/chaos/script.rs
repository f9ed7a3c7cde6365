//! Scripts: what a client sends in one go, and how it goes on after that.

use std::fmt;

use fastrand::Rng;

use crate::ledger::Ledger;
use crate::recipe::{Carry, Recipe, Take};

/// Longest pipeline.
const LONGEST: usize = 600;

/// What clients send most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Everything, some of it together.
    Mixed,
    /// What the plain path serves, one request at a time.
    Single,
    /// Hundreds of requests together.
    Long,
    /// Two requests whose bodies are read late, the second of which comes in two parts.
    Late,
    /// Everything together, most of it of HTTP/1.0.
    Old,
    /// The plain path serves most of it: one request in fifty is hyper's, and its connection then too.
    Usual,
}

/// What a client sends in one go, and how it ends.
pub(crate) struct Script {
    pub(crate) requests: Vec<Recipe>,
    pub(crate) ending: Ending,
    /// It is cut here, and not anywhere.
    pub(crate) cut: Option<usize>,
}

/// How a script ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Another follows on the same connection.
    Open,
    /// The last request ends the connection.
    Last,
    /// The client closes its side behind the last request.
    HalfClose,
    /// What follows the last request is none.
    Nonsense,
    /// The client is gone, somewhere.
    Vanish,
}

const NONSENSE: &[u8] = b"GET\x01/ HTTP/1.1\r\nHost: chaos\r\n\r\n";

impl Script {
    /// What a client of this habit sends next; its requests are entered in the ledger.
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

    /// Two requests whose bodies are read when both were answered. The second is cut in its body.
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

    /// Requests whose bodies nobody reads, and which come whole: they end nothing.
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

    /// Whether a response to what is none may come without its body, for a client that asked with
    /// HEAD.
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
