//! The bytes of an HTTP/1 connection, and the trace context in its fields.

use std::sync::OnceLock;

use corelane::fuzzing::{self, follow};
use pair::Pair;

use super::{Target, text};

#[path = "../../../corelane/tests/it/support/far_end.rs"]
mod far_end;
#[path = "../../../corelane/tests/it/support/pair.rs"]
mod pair;

/// The guard against request smuggling. The result does not depend on how a connection's bytes are
/// split.
///
/// The first 8 bytes of the input determine where it is cut.
pub(super) const FRAMING: Target = Target {
    name: "framing",
    run: framing,
    seeds: &[
        (
            "both_lengths",
            b"seed-002POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n\
            0\r\n\r\n",
        ),
        (
            "chunked",
            b"seed-001POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n\
            0\r\nTrailer: x\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        ),
        ("fragment", b"seed-003GET /a#b HTTP/1.1\r\nHost: a\n\r\n"),
        ("other_version", b"seed-004PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        (
            "pipelined",
            b"seed-000GET /a?b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n\
            helloHEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        (
            "twice",
            b"seed-005POST / HTTP/1.1\r\ncontent-length: 5\r\nContent-Length: 5\r\n\r\n\
            helloA B C D\r\n",
        ),
    ],
};

fn framing(input: &[u8]) {
    let Some((seed, bytes)) = input.split_first_chunk::<8>() else { return };
    let whole = follow([bytes].into_iter().filter(|piece| !piece.is_empty()));
    if let Some((at, _, fault)) = &whole {
        assert!(*at <= bytes.len(), "{fault}");
        // Without the bytes after the cut, the guard does not cut any earlier.
        let passed = [&bytes[..*at]].into_iter().filter(|piece| !piece.is_empty());
        assert!(follow(passed).is_none_or(|(again, ..)| again == *at), "{fault}");
    }
    assert_eq!(follow(bytes.chunks(1)), whole, "one by one");
    assert_eq!(follow(pieces(bytes, 64, u64::from_le_bytes(*seed))), whole, "in pieces");
}

/// The plain path. For any bytes in any pieces, a server with the plain path and a server without
/// it send the same responses, except for named differences ([`pair::Known`]).
///
/// The first 8 bytes of the input determine where the rest is cut. Each server reads every piece
/// separately, so an input has only one result.
pub(super) const PLAIN_REQUESTS: Target = Target {
    name: "plain_requests",
    run: plain_requests,
    seeds: &[
        (
            "bodiless",
            b"\xbe\xbe\xbe\xbe\xbe\xbe\xbe\xbeGET /204/none HTTP/1.1\r\nHost: t\r\n\r\n\
            GET /304/none HTTP/1.1\r\nHost: t\r\n\r\nGET /a HTTP/1.1\r\nHost: t\r\n\r\n",
        ),
        (
            "body",
            b"********GET /a HTTP/1.1\r\nHost: t\r\n\r\nPOST /b HTTP/1.1\r\nHost: t\r\n\
            Content-Length: 3\r\n\r\nabcGET /a HTTP/1.1\r\nHost: t\r\n\r\n",
        ),
        (
            "body_in_pieces",
            b"********POST /b HTTP/1.1\r\nHost: t\r\nContent-Length: 900\r\n\r\n\
            012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
            012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
            012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
            012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
            012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
            012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
            012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
            012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
            012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
            012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
            GET /a HTTP/1.1\r\nHost: t\r\n\r\n",
        ),
        (
            "broken_body",
            b"********POST /b HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\na",
        ),
        (
            "close",
            b"OOOOOOOOGET /a HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\nGET /a HTTP/1.1\r\n\
            Host: t\r\n\r\n",
        ),
        (
            "folded",
            b"\xe3\xe3\xe3\xe3\xe3\xe3\xe3\xe3GET /a HTTP/1.1\r\nHost: t\r\n\r\nGET /a HTTP/1.1\r\n\
            Host: t\r\nA: b\r\n\x20c\r\n\r\nGET /a HTTP/1.1\r\nHost: t\r\n\r\n",
        ),
        (
            "head",
            b"ttttttttHEAD /unknown/parts HTTP/1.1\r\nHost: t\r\n\r\nGET /a HTTP/1.1\r\nHost: t\r\n\
            \r\n",
        ),
        (
            "parts",
            b"\x99\x99\x99\x99\x99\x99\x99\x99GET /wait/slow/parts HTTP/1.1\r\nHost: t\r\n\
            Cookie: a=b\r\n\r\nGET /a HTTP/1.1\r\nHost: t\r\n\r\n",
        ),
        (
            "pipeline",
            b"\x05\x05\x05\x05\x05\x05\x05\x05GET /a HTTP/1.1\r\nHost: t\r\n\r\nGET /a HTTP/1.1\r\n\
            Host: t\r\n\r\nGET /a HTTP/1.1\r\nHost: t\r\n\r\n",
        ),
        (
            "refused_behind_head",
            b"ttttttttHEAD /unknown/pa2ts HTTP/1.1\r\nHost: t\r\n\r\nGET /a HTTP/1.1\r\n\
            Ho\x8d\x8bt\r\n\r\n",
        ),
        (
            "refused_in_parts",
            b"\x99\x99\x99\x99\x99\x99\x99\x99GET /wait/slow/\xd1\xd1\xd1\xd1\xd1\xd1\xd1\xd1\xd1\xd1\xd1\
            \xd1\xd1\xd1\xd1\xd1\xd1\xd1\xd1\xd1\xd1\xd1\xd1\xd1\xd1\xd1\xd1\xd1\xd1parts HTTP/1g.1\r\n\
            Host: t\r\n",
        ),
    ],
};

static PAIR: OnceLock<Pair> = OnceLock::new();

fn plain_requests(input: &[u8]) {
    let Some((seed, bytes)) = input.split_first_chunk::<8>() else { return };
    // The HTTP/2 preface starts like this, and the bytes after it are not text.
    if bytes.starts_with(b"PRI ") {
        return;
    }
    let pieces: Vec<_> = pieces(bytes, 256, u64::from_le_bytes(*seed)).collect();
    let pair = PAIR.get_or_init(Pair::start);
    pair.compare(&pieces).expect("the same replies");
}

/// Cuts `bytes` into pieces of 1 to `longest` bytes with a xorshift generator.
fn pieces(mut bytes: &[u8], longest: usize, mut state: u64) -> impl Iterator<Item = &[u8]> {
    state |= 1;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let at = bytes.len().min(1 + (state >> 32) as usize % longest);
        let (piece, rest) = bytes.split_at(at);
        bytes = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The trace context that is passed on is valid, bounded, and unchanged when parsed again.
pub(super) const TRACE_CONTEXT: Target = Target {
    name: "trace_context",
    run: |input| text(input, trace_context),
    seeds: &[
        ("later", b"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03-what comes later"),
        (
            "sampled",
            b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n\
            congo=t61rcWkgMzE,rojo=00f067aa0ba902b7\nfw529a3039@dt=x y , ,z=1",
        ),
    ],
};

fn trace_context(text: &str) {
    let mut lines = text.split('\n');
    let Some((parent, state)) = fuzzing::trace_context(lines.next().unwrap_or(""), lines) else {
        return;
    };
    assert_eq!(parent.len(), 55, "{parent}");
    assert!(parent.starts_with("00-") && !parent.contains(|c: char| c.is_uppercase()), "{parent}");
    assert!(parent[3..35] != "0".repeat(32) && parent[36..52] != "0".repeat(16), "{parent}");
    let members = |state: &String| state.split(',').filter(|one| !one.trim().is_empty()).count();
    assert!(state.as_ref().is_none_or(|state| state.len() <= 512), "{state:?}");
    assert!(state.as_ref().is_none_or(|state| (1..=32).contains(&members(state))), "{state:?}");
    assert_eq!(
        fuzzing::trace_context(&parent, state.as_deref().into_iter()),
        Some((parent, state))
    );
}
