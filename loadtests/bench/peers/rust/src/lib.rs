//! What the peers share: their command line, and the replies that need no framework.

#[cfg(feature = "frameworks")]
pub mod frameworks;
mod options;

use std::hint::black_box;
use std::time::Duration;

use serde::Deserialize;

pub use options::Options;

/// The body of `GET /hello`, as in the reference service.
pub const HELLO: &str = "Hello, World!";

/// Idle timeout for peers with such a setting: Corelane's default.
pub const IDLE: Duration = Duration::from_secs(75);

/// Length of the accept queue: Corelane's default.
pub const BACKLOG: u16 = 4096;

/// Maximum length of n in `GET /div/{n}`, as in the reference service.
const LONGEST: usize = 1000;

/// The reply of `GET /div/{n}`: half of n, exact for decimals of any length; `None` if it is none.
pub fn half(n: &str) -> Option<String> {
    let digits = n.strip_prefix('-').unwrap_or(n);
    let (whole, fraction) = match digits.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (digits, ""),
    };
    let all = || whole.bytes().chain(fraction.bytes());
    if n.len() > LONGEST || whole.is_empty() || !all().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut rest = 0;
    // The half of an odd last digit needs one more digit.
    let halves = all().chain([b'0']).map(|byte| {
        let value = 10 * rest + (byte - b'0');
        rest = value % 2;
        char::from(b'0' + value / 2)
    });
    let mut found = String::with_capacity(n.len() + 3);
    found.extend(halves);
    let fraction = found.split_off(whole.len());
    let (whole, fraction) = (found.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let whole = if whole.is_empty() { "0" } else { whole };
    let sign = if digits.len() < n.len() && (whole, fraction) != ("0", "") { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    Some([sign, whole, point, fraction].concat())
}

/// The query of `GET /work?ops=N`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Work {
    /// How many iterations to run.
    pub ops: u64,
}

impl Work {
    /// Parses `ops=N`, for peers without a query parser.
    pub fn parse(query: &str) -> Option<Work> {
        Some(Work { ops: query.strip_prefix("ops=")?.parse().ok()? })
    }

    /// The body of the reply. The loop is that of the reference service.
    pub fn reply(self) -> String {
        let mut state = 1u64;
        for _ in 0..self.ops {
            state = black_box(
                state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407),
            );
        }
        format!("{state:016x}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_exact() {
        for (n, want) in [
            ("4", "2"),
            ("5", "2.5"),
            ("1", "0.5"),
            ("-3", "-1.5"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("0.10", "0.05"),
            ("007", "3.5"),
            ("123456789012345678901234567891", "61728394506172839450617283945.5"),
            ("0.0000000000000000000000000000000001", "0.00000000000000000000000000000000005"),
        ] {
            assert_eq!(half(n).as_deref(), Some(want), "{n}");
        }
    }

    #[test]
    fn what_is_no_decimal_is_refused() {
        let long = "1".repeat(LONGEST + 1);
        for wrong in ["", "-", ".", "1.", ".5", "+1", "1e3", "0x10", "--1", "four", "1.2.3", &long]
        {
            assert_eq!(half(wrong), None, "{wrong}");
        }
    }
}
