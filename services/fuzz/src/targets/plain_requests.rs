//! The fast path: a server with it and one without send the same replies to any bytes in any
//! pieces.
//!
//! The first 8 bytes of the input choose where the rest is split.

use std::sync::OnceLock;

use pair::Pair;

#[path = "../../../corelane/tests/it/support/pair.rs"]
mod pair;

static PAIR: OnceLock<Pair> = OnceLock::new();

pub(super) fn run(input: &[u8]) {
    let Some((seed, bytes)) = input.split_first_chunk::<8>() else { return };
    // The HTTP/2 preface, after which the input is binary.
    if bytes.starts_with(b"PRI ") {
        return;
    }
    let pieces: Vec<_> = pieces(bytes, u64::from_le_bytes(*seed)).collect();
    let pair = PAIR.get_or_init(Pair::start);
    let same = |_| {
        let [plain, hyper] = pair.replies(&pieces);
        plain == hyper
    };
    let [plain, hyper] = pair.replies(&pieces);
    assert!(plain == hyper || (0..TRIES).any(same), "{plain:?} and {hyper:?}");
}

/// hyper's reply to rejected bytes depends on how many it read at a time, in either server. So a
/// difference counts only if it occurs in every attempt.
const TRIES: usize = 50;

/// Cuts `bytes` into pieces of 1 to 256 bytes, chosen by a xorshift generator.
fn pieces(mut bytes: &[u8], mut state: u64) -> impl Iterator<Item = &[u8]> {
    state |= 1;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let at = bytes.len().min(1 + (state >> 32) as usize % 256);
        let (piece, rest) = bytes.split_at(at);
        bytes = rest;
        (!piece.is_empty()).then_some(piece)
    })
}
