//! `GET /work?ops=N`: N iterations of arithmetic, all on the lane. `/work/{name}` is a separate
//! route, so that the load table can distinguish two sizes.

use std::hint::black_box;

use bytes::Bytes;
use form_urlencoded::parse;
use http::{HeaderMap, Response};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::openapi::{self, Operation, Parameter};

pub(crate) fn reply(map: HeaderMap, query: &str, max_ops: u64) -> Response<Full<Bytes>> {
    match ops(query, max_ops) {
        Some(ops) => super::text(map, Bytes::copy_from_slice(&line(work(ops)))),
        None => {
            super::bad_parameter("ops", &format!("given once, a whole number from 0 to {max_ops}"))
        }
    }
}

pub(crate) fn describe(max_ops: u64) -> [openapi::Path; 2] {
    let ops = json!({ "type": "integer", "minimum": 0, "maximum": max_ops });
    let result = json!({ "type": "string", "pattern": "^[0-9a-f]{16}\\n$" });
    let about = format!("Steps of arithmetic, 0 to {max_ops}");
    let ops = Parameter::required("query", "ops", &about, ops).example(1_000.min(max_ops));
    let about = "Names the kind of request, so that metrics and load tables tell it from others";
    let name = Parameter::required("path", "name", about, json!({ "type": "string" }));
    let name = name.example("small");
    let get = |id, parameters: Vec<Parameter>| {
        let reply = openapi::reply(
            "The result, in 16 hexadecimal digits",
            Some(("text/plain; charset=utf-8", result.clone())),
        );
        let get = Operation::new(id, "Arithmetic that holds the lane")
            .tag(openapi::WORKLOADS)
            .description("Other parameters of the query are ignored")
            .parameters(parameters)
            .reply(200, openapi::with_example(reply, "f517ff66df0cbea9\n"));
        json!({ "get": Value::from(get) })
    };
    [("/work", get("work", vec![ops.clone()])), ("/work/{name}", get("namedWork", vec![name, ops]))]
}

/// Number of iterations. Ignores other parameters, such as tracking parameters.
pub(crate) fn ops(query: &str, max_ops: u64) -> Option<u64> {
    // The usual query, without decoding.
    let usual = query.strip_prefix("ops=").and_then(number);
    let ops = usual.or_else(|| {
        let mut values = parse(query.as_bytes()).filter(|(name, _)| name == "ops");
        let (_, value) = values.next()?;
        number(&value).filter(|_| values.next().is_none())
    })?;
    (ops <= max_ops).then_some(ops)
}

fn number(digits: &str) -> Option<u64> {
    // Rust accepts a plus sign.
    if digits.starts_with('+') { None } else { digits.parse().ok() }
}

/// A number as 16 hexadecimal digits.
fn line(number: u64) -> [u8; 17] {
    let digit = |place: usize| b"0123456789abcdef"[(number >> (60 - 4 * place)) as usize & 15];
    std::array::from_fn(|place| if place < 16 { digit(place) } else { b'\n' })
}

/// Steps of a 64-bit linear congruential generator (Knuth's MMIX constants). Each step depends on
/// the previous one, and `black_box` prevents constant folding.
fn work(ops: u64) -> u64 {
    let mut state = 1u64;
    for _ in 0..ops {
        state = black_box(
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407),
        );
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_is_one_number_within_bounds() {
        assert_eq!(ops("ops=5", 10), Some(5));
        assert_eq!(ops("a=b&ops=10", 10), Some(10));
        assert_eq!(ops("%6Fps=%31%30", 10), Some(10));
        assert_eq!(ops("ops=007", 10), Some(7));
        for wrong in [
            "",
            "ops=",
            "ops=11",
            "ops=-1",
            "ops=%2B1",
            "ops=+1",
            "ops=1%00",
            "ops=\u{661}",
            "ops=1.5",
            "ops=1&ops=1",
            "Ops=1",
            "ops=99999999999999999999",
        ] {
            assert_eq!(ops(wrong, 10), None, "{wrong}");
        }
    }

    #[test]
    fn a_line_has_all_digits() {
        assert_eq!(&line(0x0123_4567_89ab_cdef), b"0123456789abcdef\n");
        assert_eq!(&line(10), b"000000000000000a\n");
    }

    #[test]
    fn every_iteration_is_run() {
        assert_eq!(work(0), 1);
        assert_eq!(work(1), 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407);
        assert_ne!(work(1_000), work(1_001));
    }
}
