//! Numbers as people read them.

use std::fmt::{self, Display};

/// Whole numbers, with a comma after each three digits.
pub(super) struct Grouped(pub(super) u64);

impl Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// Milliseconds, in the unit that suits them.
pub(super) struct Time(pub(super) f64);

impl Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0;
        let seconds = (ms / 1e3).round() as u64;
        match ms {
            0.0 => f.write_str("0"),
            ..1.0 => write!(f, "{} µs", digits(ms * 1e3)),
            ..1e3 => write!(f, "{} ms", digits(ms)),
            ..60e3 => write!(f, "{} s", digits(ms / 1e3)),
            ..3_600e3 => two(f, seconds, (60, "min"), (1, "s")),
            ..86_400e3 => two(f, seconds, (3_600, "h"), (60, "min")),
            _ => two(f, seconds, (86_400, "d"), (3_600, "h")),
        }
    }
}

/// A time in a unit and the next smaller one.
fn two(
    f: &mut fmt::Formatter<'_>,
    seconds: u64,
    (large, name): (u64, &str),
    (small, next): (u64, &str),
) -> fmt::Result {
    write!(f, "{} {name}", seconds / large)?;
    match seconds % large / small {
        0 => Ok(()),
        rest => write!(f, " {rest} {next}"),
    }
}

/// Bytes, in the largest binary unit that has a whole number of them, or about so many.
pub(super) struct Bytes(pub(super) u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.into_iter().find(|&(unit, _)| self.0 >= unit) {
            Some((unit, name)) => write!(f, "{} {name}", digits(self.0 as f64 / unit as f64)),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

/// About three digits, without zeros at the end.
fn digits(value: f64) -> String {
    let places = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_suits_them() {
        let texts = [
            (0.0, "0"),
            (0.0425, "42.5 µs"),
            (7.123, "7.12 ms"),
            (250.0, "250 ms"),
            (1_500.0, "1.5 s"),
            (61e3, "1 min 1 s"),
            (7_200e3, "2 h"),
            (90_000e3, "1 d 1 h"),
        ];
        for (ms, text) in texts {
            assert_eq!(Time(ms).to_string(), text);
        }
    }

    #[test]
    fn counts_and_bytes_are_grouped() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(|n| Grouped(n).to_string()).join(" "),
            "0 999 1,000 1,234,567"
        );
        assert_eq!(
            [5, 1_536, 16 << 20].map(|n| Bytes(n).to_string()).join(", "),
            "5 bytes, 1.5 KiB, 16 MiB"
        );
    }
}
