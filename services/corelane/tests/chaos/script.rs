//! Scripts: what a client sends at a time, and how it continues.

use std::fmt;

use fastrand::Rng;

use crate::ledger::Ledger;
use crate::recipe::{Carry, Recipe, Take};

/// Maximum number of requests in a pipeline.
const LONGEST: usize = 600;

/// What clients mostly send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// All kinds of requests, some of them together.
    Mixed,
    /// Requests that the plain path serves, one at a time.
    Single,
    /// Hundreds of requests together.
    Long,
    /// Two requests whose bodies are read late. The second arrives in two parts.
    Late,
    /// All kinds of requests together, most of them HTTP/1.0.
    Old,
    /// Mostly requests that the plain path serves. One request in fifty moves its connection to
    /// hyper.
    Usual,
}

/// What a client sends at a time, and how it ends.
pub(crate) struct Script {
    pub(crate) requests: Vec<Recipe>,
    pub(crate) ending: Ending,
    /// The only place where the script is cut; `None`: at any places.
    pub(crate) cut: Option<usize>,
}

/// How a script ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Another script follows on the same connection.
    Open,
    /// The last request ends the connection.
    Last,
    /// The client closes its side after the last request.
    HalfClose,
    /// The bytes after the last request are not a request.
    Nonsense,
    /// The client disconnects at some point.
    Vanish,
}

const NONSENSE: &[u8] = b"GET\x01/ HTTP/1.1\r\nHost: chaos\r\n\r\n";

impl Script {
    /// The next script of a client with this habit. Its requests are entered in the ledger.
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

    /// Two requests whose bodies are read after both were answered. The second is cut in its body.
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

    /// Requests whose bodies nobody reads, and which arrive completely: they do not end the
    /// connection.
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

    /// Whether the response to bytes that are not a request may lack its body, because the client's
    /// last request was a HEAD.
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
