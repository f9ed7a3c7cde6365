//! `/div/{n}`: the result, added to itself, is n.

use corelane_server::fuzzing::half;

pub(super) fn run(n: &str) {
    let Some(half) = half(n) else { return };
    let (sign, digits) = parts(&half);
    assert!(!digits.0.starts_with('0') || digits.0 == "0", "{half}: a leading zero");
    assert!(!half.contains('.') || !half.ends_with('0'), "{half}: a trailing zero");
    assert_eq!(normal(sign, double(digits)), normal_of(n));
    if let Ok(n) = n.parse::<i64>()
        && n % 2 == 0
    {
        assert_eq!(half, (n / 2).to_string());
    }
}

/// The sign, the digits before the point and those after it.
fn parts(n: &str) -> (&str, (&str, &str)) {
    let (sign, digits) = n.strip_prefix('-').map_or(("", n), |digits| ("-", digits));
    (sign, digits.split_once('.').unwrap_or((digits, "")))
}

/// Adds a number to itself, starting at its last digit.
fn double((whole, fraction): (&str, &str)) -> (String, String) {
    let mut carry = 0;
    let mut digits: Vec<u8> = format!("{whole}{fraction}").into_bytes();
    for digit in digits.iter_mut().rev() {
        let sum = 2 * (*digit - b'0') + carry;
        (*digit, carry) = (b'0' + sum % 10, sum / 10);
    }
    digits.insert(0, b'0' + carry);
    let digits = String::from_utf8(digits).expect("digits");
    let (whole, fraction) = digits.split_at(digits.len() - fraction.len());
    (whole.to_owned(), fraction.to_owned())
}

fn normal(sign: &str, (whole, fraction): (String, String)) -> (String, String, String) {
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let sign = if whole.is_empty() && fraction.is_empty() { "" } else { sign };
    (sign.to_owned(), whole.to_owned(), fraction.to_owned())
}

fn normal_of(n: &str) -> (String, String, String) {
    let (sign, (whole, fraction)) = parts(n);
    normal(sign, (whole.to_owned(), fraction.to_owned()))
}
