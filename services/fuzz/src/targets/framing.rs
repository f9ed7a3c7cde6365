//! The guard against request smuggling: its result does not depend on how the bytes are split.
//!
//! The first 8 bytes of the input choose where to split.

use corelane::fuzzing::follow;

pub(super) fn run(input: &[u8]) {
    let Some((seed, bytes)) = input.split_first_chunk::<8>() else { return };
    let whole = follow([bytes].into_iter().filter(|piece| !piece.is_empty()));
    if let Some((at, _, reason)) = whole.cut {
        assert!(at <= bytes.len(), "{reason}");
        // Bytes that may pass are not cut again.
        assert_eq!(follow([&bytes[..at]].into_iter()).cut, None, "{reason}");
    }
    assert_eq!(follow(bytes.chunks(1)), whole, "one by one");
    assert_eq!(follow(pieces(bytes, u64::from_le_bytes(*seed))), whole, "in pieces");
}

/// Cuts `bytes` into pieces of 1 to 64 bytes, chosen by a xorshift generator.
fn pieces(mut bytes: &[u8], mut state: u64) -> impl Iterator<Item = &[u8]> {
    state |= 1;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let at = bytes.len().min(1 + (state >> 32) as usize % 64);
        let (piece, rest) = bytes.split_at(at);
        bytes = rest;
        (!piece.is_empty()).then_some(piece)
    })
}
