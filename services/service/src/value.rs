//! Parsers of values with units and bounds.
//!
//! Each error says what is allowed, as in "a whole number from 1 to 5", without a period.
//! [`flags::allowed`](crate::flags::allowed) turns it into a sentence for clap.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;

/// A frequent bound of durations.
pub const MILLISECOND: Duration = Duration::from_millis(1);

/// A frequent bound of durations.
pub const HOUR: Duration = Duration::from_secs(3600);

/// An IP address and a port.
///
/// # Errors
///
/// What is allowed.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "an IP address and a port, such as 0.0.0.0:8080 or [::]:8080".to_owned())
}

/// A name that is a valid value of a header field.
///
/// # Errors
///
/// What is allowed.
pub fn name(text: &str) -> Result<String, String> {
    if text.len() <= 253 && text.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    Err("at most 253 printable ASCII characters without spaces".to_owned())
}

/// A word that a type parses, such as an enum's.
///
/// # Errors
///
/// What is allowed.
pub fn word<T: FromStr<Err = String>>(text: &str) -> Result<T, String> {
    text.parse()
}

/// `on` or `off`.
///
/// # Errors
///
/// What is allowed.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("on or off".to_owned()),
    }
}

/// A whole number, in bounds.
pub fn number(
    min: u64,
    max: u64,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + use<> {
    move |text| match text.parse() {
        Ok(n) if (min..=max).contains(&n) => Ok(n),
        _ => Err(format!("a whole number from {min} to {max}")),
    }
}

/// Whether text ends in a unit; `0` needs none.
fn has_unit(text: &str) -> bool {
    text == "0" || text.ends_with(|c: char| c.is_ascii_alphabetic())
}

/// A number of bytes with its unit, in bounds.
pub fn size(
    min: u64,
    max: u64,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + use<> {
    move |text| match text.parse::<ByteSize>() {
        Ok(size) if has_unit(text) && (min..=max).contains(&size.as_u64()) => Ok(size.as_u64()),
        _ => Err(format!(
            "a size with its unit (B, KiB, MiB, ...) from {} to {}",
            ByteSize(min).display().iec(),
            ByteSize(max).display().iec()
        )),
    }
}

/// A duration with its unit, in bounds.
pub fn duration(
    min: Duration,
    max: Duration,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + use<> {
    move |text| match humantime::parse_duration(text) {
        Ok(duration) if (min..=max).contains(&duration) => Ok(duration),
        _ => Err(format!(
            "a duration with its unit (ms, s, m, h) from {} to {}",
            humantime::format_duration(min),
            humantime::format_duration(max)
        )),
    }
}

/// A value, or `off`.
pub fn optional<T>(
    parse: impl Fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<Option<T>, String> {
    move |text| match text {
        "off" => Ok(None),
        _ => parse(text).map(Some).map_err(|allowed| format!("off, or {allowed}")),
    }
}

/// Values separated by commas, possibly none.
pub fn list<T>(
    parse: impl Fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<Vec<T>, String> {
    move |text| {
        let values = text.split(',').map(str::trim).filter(|value| !value.is_empty());
        let parsed: Result<_, _> = values.map(&parse).collect();
        parsed.map_err(|allowed| format!("values separated by commas, each {allowed}"))
    }
}

/// Any text.
///
/// # Errors
///
/// What is allowed.
pub fn text(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

/// A number from 0 to 1.
///
/// # Errors
///
/// What is allowed.
pub fn ratio(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("a number from 0 to 1".to_owned()),
    }
}

/// The path of a file, which need not exist; empty means none.
///
/// # Errors
///
/// What is allowed.
pub fn file(text: &str) -> Result<Option<PathBuf>, String> {
    Ok((!text.is_empty()).then(|| PathBuf::from(text)))
}

/// The path of a folder that can be read; empty means none.
///
/// # Errors
///
/// What is allowed.
pub fn folder(text: &str) -> Result<Option<PathBuf>, String> {
    let path = PathBuf::from(text);
    match text {
        "" => Ok(None),
        _ if path.read_dir().is_ok() => Ok(Some(path)),
        _ => Err("a folder that can be read".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_carry_units() {
        let parse = size(1, 1 << 20);
        assert_eq!(parse("32KiB"), Ok(32_768));
        assert_eq!(parse("1B"), Ok(1));
        assert_eq!(parse("1MiB"), Ok(1 << 20));
        for wrong in ["32", "2MiB", "0", "-1KiB", "many", ""] {
            assert!(
                parse(wrong).is_err_and(|e| e.contains("unit") && e.contains("1.0 MiB")),
                "{wrong}"
            );
        }
    }

    #[test]
    fn durations_carry_units() {
        let parse = duration(Duration::ZERO, Duration::from_secs(60));
        assert_eq!(parse("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
        for wrong in ["5", "61s", "soon", "-1s", ""] {
            assert!(parse(wrong).is_err_and(|e| e.contains("unit") && e.contains("1m")), "{wrong}");
        }
    }

    #[test]
    fn what_is_optional_may_be_off() {
        let parse = optional(number(1, 5));
        assert_eq!((parse("off"), parse("3")), (Ok(None), Ok(Some(3))));
        assert!(parse("9").is_err_and(|allowed| allowed.starts_with("off, or")));
    }

    #[test]
    fn each_value_of_a_list_is_parsed() {
        let parse = list(number(1, 5));
        assert_eq!((parse("1, 2,5"), parse("")), (Ok(vec![1, 2, 5]), Ok(vec![])));
        assert!(parse("1,9").is_err_and(|allowed| allowed.contains("each a whole number")));
    }

    #[test]
    fn names_fit_a_header_field() {
        assert!(name("server-0").is_ok());
        assert!(name("two words").is_err());
        assert!(name("line\nbreak").is_err());
    }
}
