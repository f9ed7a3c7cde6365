//! `GET /div/{n}`: half of n, exact for whole numbers and decimals of any length.

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body_util::Full;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::openapi::{self, Operation, Parameter};

/// Maximum length of n, in addition to the limit on the target.
const MAX_LENGTH: usize = 1000;

/// `n` is as in the path: `%34` equals `4` (RFC 3986 section 6.2.2.2).
pub(crate) fn reply(map: HeaderMap, n: &str) -> Response<Full<Bytes>> {
    let n = percent_decode_str(n).decode_utf8();
    match n.ok().and_then(|n| half(&n)) {
        Some(half) => super::text(map, half),
        None => super::bad_parameter(
            "n",
            &format!("a decimal number such as 4, -7 or 0.25, of {MAX_LENGTH} characters at most"),
        ),
    }
}

pub(crate) fn describe() -> openapi::Path {
    let number = "^-?[0-9]+(\\.[0-9]+)?$";
    let n = json!({ "type": "string", "pattern": number, "maxLength": MAX_LENGTH });
    let half = json!({ "type": "string", "pattern": number });
    let about =
        format!("A decimal number of at most {MAX_LENGTH} characters, such as 4, -7 or 0.25");
    let reply = openapi::reply("The half", Some(("text/plain; charset=utf-8", half)));
    let get = Operation::new("div", "Half of n, exact for whole numbers and decimals")
        .tag(openapi::WORKLOADS)
        .parameters([Parameter::required("path", "n", &about, n).example("4")])
        .reply(200, openapi::with_example(reply, "2.0"));
    ("/div/{n}", json!({ "get": Value::from(get) }))
}

pub(crate) fn half(n: &str) -> Option<String> {
    if n.len() > MAX_LENGTH {
        return None;
    }
    let (sign, digits) = n.strip_prefix('-').map_or(("", n), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let mut rest = 0;
    let mut divide = |digit: u8| {
        let value = rest * 10 + (digit - b'0');
        rest = value % 2;
        char::from(b'0' + value / 2)
    };
    // Leaves room for a point, a zero before it and a final 5.
    let mut half = String::with_capacity(n.len() + 3);
    half.push_str(sign);
    half.extend(whole.bytes().map(&mut divide).skip_while(|&digit| digit == '0'));
    if half.len() == sign.len() {
        half.push('0');
    }
    half.push('.');
    // One more digit for the last remainder: halves end in 5.
    half.extend(fraction.bytes().chain([b'0']).map(&mut divide));
    half.truncate(half.trim_end_matches('0').trim_end_matches('.').len());
    Some(if half == "-0" { "0".to_owned() } else { half })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_exact() {
        let cases = [
            ("4", "2"),
            ("5", "2.5"),
            ("0", "0"),
            ("1", "0.5"),
            ("-3", "-1.5"),
            ("-0", "0"),
            ("0.1", "0.05"),
            ("0.10", "0.05"),
            ("007", "3.5"),
            ("2.50", "1.25"),
            ("10", "5"),
            ("123456789012345678901234567891", "61728394506172839450617283945.5"),
            ("0.0000000000000000000000000000000001", "0.00000000000000000000000000000000005"),
        ];
        for (n, want) in cases {
            assert_eq!(half(n).as_deref(), Some(want), "{n}");
        }
    }

    #[test]
    fn what_is_no_decimal_is_refused() {
        let long = "1".repeat(MAX_LENGTH + 1);
        for wrong in
            ["", "-", ".", "1.", ".5", "+1", "1e3", "0x10", "1,5", "--1", "four", "1/2", "٣", &long]
        {
            assert_eq!(half(wrong), None, "{wrong}");
        }
    }
}
