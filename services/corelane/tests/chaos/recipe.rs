//! Requests and their expected responses.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use fastrand::Rng;

pub(crate) const LARGEST: usize = 6 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    Read,
    Late,
    Half,
    Drop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Give {
    Whole,
    Parts,
    Chunked,
}

/// Decides when a service responds and when it sends each part of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Nothing,
    Turn,
    Timer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carry {
    Nothing,
    Length(usize),
    /// Chunks of at most this size.
    Chunks(usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// HTTP/1.1, no `Connection` header.
    Open,
    Close,
    Old,
    /// HTTP/1.0, no `Connection` header.
    OldClose,
    /// HTTP/1.1 with an upgrade that the server declines.
    Upgrade,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe {
    pub(crate) number: u64,
    pub(crate) head_only: bool,
    pub(crate) kept: Kept,
    pub(crate) carry: Carry,
    pub(crate) take: Take,
    pub(crate) give: Give,
    pub(crate) size: usize,
    pub(crate) wait: Wait,
}

macro_rules! named {
    ($kind:ident: $($name:literal => $value:ident),+) => {
        impl $kind {
            fn name(self) -> &'static str {
                match self { $($kind::$value => $name),+ }
            }

            fn named(name: &str) -> Option<Self> {
                match name { $($name => Some($kind::$value),)+ _ => None }
            }
        }
    };
}

named!(Take: "read" => Read, "late" => Late, "half" => Half, "drop" => Drop);
named!(Give: "whole" => Whole, "parts" => Parts, "chunked" => Chunked);
named!(Wait: "nothing" => Nothing, "turn" => Turn, "timer" => Timer);

impl Recipe {
    /// A request without a body and an immediate, short response.
    pub(crate) fn simple(number: u64) -> Recipe {
        Recipe {
            number,
            head_only: false,
            kept: Kept::Open,
            carry: Carry::Nothing,
            take: Take::Read,
            give: Give::Whole,
            size: 24,
            wait: Wait::Nothing,
        }
    }

    pub(crate) fn plain(number: u64, rng: &mut Rng) -> Recipe {
        let any = Recipe { kept: Kept::Open, ..Recipe::any(number, rng) };
        match any.carry {
            Carry::Chunks(length, _) => Recipe { carry: Carry::Length(length), ..any },
            _ => any,
        }
    }

    /// A request that is usually HTTP/1.0 and never closes the connection.
    pub(crate) fn old(number: u64, rng: &mut Rng) -> Recipe {
        let any = Recipe::any(number, rng);
        Recipe { kept: *one_of(rng, &[Kept::Old, Kept::Old, any.kept]), ..any }.possible()
    }

    /// Never closes the connection.
    pub(crate) fn any(number: u64, rng: &mut Rng) -> Recipe {
        let body = *one_of(rng, &[0, 1, 40, 300, 300, 2000, 20_000]);
        let carry = match rng.u8(0..10) {
            0..5 => Carry::Nothing,
            5..8 => Carry::Length(body),
            _ => Carry::Chunks(body, 1 + rng.usize(0..600)),
        };
        let size = match rng.u16(0..4000) {
            0 => LARGEST,
            1..20 => 200_000,
            20..200 => 20_000,
            200..400 => 0,
            _ => rng.usize(1..300),
        };
        let take =
            if carry == Carry::Nothing || rng.u8(0..4) > 0 { Take::Read } else { Take::Late };
        let recipe = Recipe {
            number,
            head_only: rng.u8(0..20) == 0,
            kept: *one_of(rng, &[Kept::Open, Kept::Open, Kept::Open, Kept::Old, Kept::Upgrade]),
            carry,
            take,
            give: *one_of(rng, &[Give::Whole, Give::Whole, Give::Parts, Give::Chunked]),
            size,
            wait: *one_of(
                rng,
                &[Wait::Nothing, Wait::Nothing, Wait::Nothing, Wait::Turn, Wait::Turn, Wait::Timer],
            ),
        };
        recipe.possible()
    }

    /// HTTP/1.0 has no chunked encoding, and a body of unknown length ends the connection.
    fn possible(mut self) -> Recipe {
        if self.is_old() {
            self.carry = match self.carry {
                Carry::Chunks(length, _) => Carry::Length(length),
                carry => carry,
            };
            if self.kept == Kept::Old && self.give == Give::Chunked {
                self.give = Give::Parts;
            }
        }
        if self.head_only {
            (self.carry, self.take) = (Carry::Nothing, Take::Read);
        }
        self
    }

    pub(crate) fn last(self, rng: &mut Rng) -> Recipe {
        let kept = *one_of(rng, &[Kept::Close, Kept::OldClose]);
        // A body that is not read to its end also ends the connection if part of it has not
        // arrived.
        let take = match self.carry {
            Carry::Nothing => Take::Read,
            _ => *one_of(rng, &[Take::Read, Take::Half, Take::Drop]),
        };
        Recipe { kept, take, ..self }.possible()
    }

    fn is_old(&self) -> bool {
        matches!(self.kept, Kept::Old | Kept::OldClose)
    }

    pub(crate) fn closes(&self) -> bool {
        matches!(self.kept, Kept::Close | Kept::OldClose)
    }

    pub(crate) fn body_length(&self) -> usize {
        match self.carry {
            Carry::Nothing => 0,
            Carry::Length(length) | Carry::Chunks(length, _) => length,
        }
    }

    /// Head and body as sent.
    pub(crate) fn words(&self, more: &str) -> (Vec<u8>, Vec<u8>) {
        let method = match (self.head_only, self.carry) {
            (true, _) => "HEAD",
            (false, Carry::Nothing) => "GET",
            _ => "POST",
        };
        let Recipe { number, size, .. } = self;
        let (take, give, wait) = (self.take.name(), self.give.name(), self.wait.name());
        let version = if self.is_old() { "1.0" } else { "1.1" };
        let mut head = format!(
            "{method} /{number}?take={take}&give={give}&size={size}&wait={wait} HTTP/{version}\r\n\
             Host: chaos\r\n{more}"
        );
        head += match self.kept {
            Kept::Open | Kept::OldClose => "",
            Kept::Close => "Connection: close\r\n",
            Kept::Old => "Connection: keep-alive\r\n",
            Kept::Upgrade => "Connection: upgrade\r\nUpgrade: websocket\r\n",
        };
        let content = request_body(*number, self.body_length());
        let body = match self.carry {
            Carry::Nothing => Vec::new(),
            Carry::Length(length) => {
                head += &format!("Content-Length: {length}\r\n");
                content
            }
            Carry::Chunks(_, most) => {
                head += "Transfer-Encoding: chunked\r\n";
                let chunks = content.chunks(most).flat_map(|chunk| {
                    [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat()
                });
                chunks.chain(*b"0\r\n\r\n").collect()
            }
        };
        head += "\r\n";
        (head.into_bytes(), body)
    }

    /// Parses the request that a service received, or returns `None` if no client sent it.
    pub(crate) fn asked(path: &str, query: Option<&str>) -> Option<Recipe> {
        let mut recipe = Recipe::simple(path.strip_prefix('/')?.parse().ok()?);
        for pair in query?.split('&') {
            let (name, value) = pair.split_once('=')?;
            match name {
                "take" => recipe.take = Take::named(value)?,
                "give" => recipe.give = Give::named(value)?,
                "size" => recipe.size = value.parse().ok()?,
                "wait" => recipe.wait = Wait::named(value)?,
                _ => return None,
            }
        }
        Some(recipe)
    }
}

/// If a server misreads any part of this body as a request, the service receives a request that no
/// client sent.
pub(crate) fn request_body(number: u64, length: usize) -> Vec<u8> {
    let lines = (0..).flat_map(|line| {
        format!("GET /smuggled/{number}/{line} HTTP/1.1\r\nHost: chaos\r\n\r\n").into_bytes()
    });
    lines.take(length).collect()
}

/// Different requests have different bytes at every position.
pub(crate) fn reply_body(number: u64, length: usize) -> Bytes {
    static NOISE: OnceLock<Bytes> = OnceLock::new();
    const PLACES: usize = 65_521;
    let noise = NOISE.get_or_init(|| {
        let mut rng = Rng::with_seed(1);
        (0..PLACES + LARGEST).map(|_| rng.u8(..)).collect()
    });
    let begin = usize::try_from(number).unwrap_or_default().wrapping_mul(7919) % PLACES;
    noise.slice(begin..begin + length)
}

pub(crate) fn one_of<'a, T>(rng: &mut Rng, all: &'a [T]) -> &'a T {
    &all[rng.usize(0..all.len())]
}

/// Splits `length` bytes at random into one to three parts.
pub(crate) fn cut(length: usize, rng: &mut Rng) -> Vec<Range<usize>> {
    let mut ends: Vec<_> = (0..rng.usize(0..3)).map(|_| rng.usize(0..=length)).collect();
    ends.push(length);
    ends.sort_unstable();
    let begins = std::iter::once(0).chain(ends.clone());
    begins
        .zip(ends.clone())
        .map(|(begin, end)| begin..end)
        .filter(|part| !part.is_empty())
        .collect()
}
