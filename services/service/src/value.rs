//! Parsers for values with units and bounds.
//!
//! A parser is a function from text to a value. Its error describes what is [`Allowed`]: as text,
//! such as "a whole number from 1 to 5", without a period, and as a JSON Schema. Your own parser
//! may return only the text:
//!
//! ```
//! use corelane_service::{settings, value};
//!
//! fn even(text: &str) -> Result<u64, String> {
//!     let number = text.parse::<u64>().ok().filter(|number| number % 2 == 0);
//!     number.ok_or_else(|| "an even number".to_owned())
//! }
//!
//! settings! {
//!     /// Two keys.
//!     struct Shop {
//!         "shop.pairs" => pairs: u64 = "2", even, "Number of shoes";
//!         "shop.open" => open: Option<u64> = "off", value::optional(value::number(0, 23)), "Hour of opening";
//!     }
//! }
//! ```
//!
//! [`flags::allowed`](crate::flags::allowed) turns such parsers into clap parsers.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
pub use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

/// Description of the values that a parser accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct Allowed {
    /// As text.
    pub text: String,
    /// As a JSON Schema. Text that the parser accepts is valid, and so is a TOML number with that
    /// text. Words are valid in only one spelling. The schema also allows some values that the
    /// parser rejects, because it cannot express everything, such as the bounds of durations. A
    /// `writeOnly` value is a secret and is never shown.
    pub schema: Value,
}

impl Allowed {
    /// Describes allowed values as text and as a JSON Schema.
    pub fn new(text: impl Into<String>, schema: Value) -> Self {
        Allowed { text: text.into(), schema }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<String> for Allowed {
    fn from(text: String) -> Self {
        Allowed::new(text, json!({"type": "string"}))
    }
}

/// No valid value contains this text, so every parser with restrictions rejects it.
const IMPOSSIBLE: &str = "\0";

/// The values that a parser accepts; `None` if it accepts any text.
pub fn allowed<T, E: Into<Allowed>>(parse: impl Fn(&str) -> Result<T, E>) -> Option<Allowed> {
    parse(IMPOSSIBLE).err().map(Into::into)
}

/// A common bound for durations.
pub const MILLISECOND: Duration = Duration::from_millis(1);

/// A common bound for durations.
pub const HOUR: Duration = Duration::from_secs(3600);

/// An IP address and a port.
///
/// # Errors
///
/// Describes the allowed values.
pub fn address(text: &str) -> Result<SocketAddr, Allowed> {
    let words = "an IP address and a port, such as 0.0.0.0:8080 or [::]:8080";
    let schema = || json!({"type": "string", "pattern": r"^[0-9A-Fa-f.:%\[\]]+:[0-9]{1,5}$"});
    text.parse().map_err(|_| Allowed::new(words, schema()))
}

/// A name that is a valid header field value.
///
/// # Errors
///
/// Describes the allowed values.
pub fn name(text: &str) -> Result<String, Allowed> {
    if text.len() <= 253 && text.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    let words = "at most 253 printable ASCII characters without spaces";
    Err(Allowed::new(words, json!({"type": "string", "pattern": "^[!-~]{0,253}$"})))
}

/// A word with its own parser, for example an enum variant.
///
/// # Errors
///
/// Describes the allowed values.
pub fn word<T: FromStr<Err = String>>(text: &str) -> Result<T, String> {
    text.parse()
}

/// `on` or `off`.
///
/// # Errors
///
/// Describes the allowed values.
pub fn switch(text: &str) -> Result<bool, Allowed> {
    choice(&[("on", true), ("off", false)])(text)
}

/// Whether text is this word, in any case. `true` and `false` count as `on` and `off`, because YAML
/// reads those as booleans.
fn is_word(text: &str, word: &str) -> bool {
    let boolean = BOOLEANS.iter().find(|(_, of)| *of == word);
    text.eq_ignore_ascii_case(word)
        || boolean.is_some_and(|(boolean, _)| text.eq_ignore_ascii_case(&boolean.to_string()))
}

const BOOLEANS: [(bool, &str); 2] = [(true, "on"), (false, "off")];

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Value {
    let mut values: Vec<Value> = words.into_iter().map(Value::from).collect();
    let booleans = BOOLEANS.iter().filter(|(_, word)| values.contains(&Value::from(*word)));
    let booleans: Vec<Value> = booleans.map(|(boolean, _)| (*boolean).into()).collect();
    values.extend(booleans);
    json!({ "enum": values })
}

/// Parses one of several words, in any case, into its value. `true` means `on`, and `false` means
/// `off`.
///
/// ```
/// use corelane_service::value::choice;
///
/// let size = choice(&[("small", 1), ("medium", 2), ("large", 3)]);
/// assert_eq!(size("Medium"), Ok(2));
/// assert_eq!(size("huge").unwrap_err().text, "small, medium or large");
/// ```
pub fn choice<T: Copy>(
    choices: &'static [(&'static str, T)],
) -> impl Fn(&str) -> Result<T, Allowed> + Clone {
    move |text| match choices.iter().find(|(word, _)| is_word(text, word)) {
        Some((_, value)) => Ok(*value),
        None => {
            let all: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            let text = match all.split_last() {
                Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
                _ => all.join(""),
            };
            Err(Allowed::new(text, words(all)))
        }
    }
}

/// Parses a whole number within bounds.
pub fn number(
    min: u64,
    max: u64,
) -> impl Fn(&str) -> Result<u64, Allowed> + Clone + Send + Sync + use<> {
    move |text| match text.parse() {
        Ok(n) if (min..=max).contains(&n) => Ok(n),
        _ => Err(Allowed::new(
            format!("a whole number from {min} to {max}"),
            json!({
                "type": ["integer", "string"],
                "minimum": min,
                "maximum": max,
                "pattern": r"^\+?[0-9]+$",
            }),
        )),
    }
}

/// The schema of a quantity with its unit: text of this form, and 0 without a unit if the bounds
/// include it.
fn quantity(form: &str, with_zero: bool) -> Value {
    match with_zero {
        true => json!({
            "type": ["string", "integer"], "pattern": format!("^(0|{form})$"), "minimum": 0, "maximum": 0,
        }),
        false => json!({"type": "string", "pattern": format!("^{form}$")}),
    }
}

/// Whether text ends in a unit; `0` needs no unit.
fn has_unit(text: &str) -> bool {
    text == "0" || text.ends_with(|c: char| c.is_ascii_alphabetic())
}

/// Parses a size with its unit, within bounds.
pub fn size(
    min: u64,
    max: u64,
) -> impl Fn(&str) -> Result<u64, Allowed> + Clone + Send + Sync + use<> {
    move |text| match text.parse::<ByteSize>() {
        Ok(size) if has_unit(text) && (min..=max).contains(&size.as_u64()) => Ok(size.as_u64()),
        _ => Err(Allowed::new(
            format!(
                "a size with its unit (B, KiB, MiB, ...) from {} to {}",
                ByteSize(min).display().iec(),
                ByteSize(max).display().iec()
            ),
            quantity(r"[0-9.]+\s*[A-Za-z]+", min == 0),
        )),
    }
}

/// Parses a duration with its unit, within bounds.
pub fn duration(
    min: Duration,
    max: Duration,
) -> impl Fn(&str) -> Result<Duration, Allowed> + Clone + Send + Sync + use<> {
    move |text| match humantime::parse_duration(text) {
        Ok(duration) if (min..=max).contains(&duration) => Ok(duration),
        _ => Err(Allowed::new(
            format!(
                "a duration with its unit (ms, s, m, h) from {} to {}",
                humantime::format_duration(min),
                humantime::format_duration(max)
            ),
            quantity(r"(\s*[0-9][0-9.\s]*[A-Za-z\u00b5]+)+\s*", min.is_zero()),
        )),
    }
}

/// Parses a value or `off`.
pub fn optional<T, E: Into<Allowed>>(
    parse: impl Fn(&str) -> Result<T, E>,
) -> impl Fn(&str) -> Result<Option<T>, Allowed> {
    unless("off", parse)
}

/// Parses a value, or a word that means no value.
pub fn unless<T, E: Into<Allowed>>(
    word: &'static str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> impl Fn(&str) -> Result<Option<T>, Allowed> {
    move |text| match is_word(text, word) {
        true => Ok(None),
        false => parse(text).map(Some).map_err(|error| {
            let Allowed { text, schema } = error.into();
            Allowed::new(format!("{word}, or {text}"), json!({"anyOf": [words([word]), schema]}))
        }),
    }
}

/// Parses values separated by commas, or no values. In a file, the values may be an array.
pub fn list<T, E: Into<Allowed>>(
    parse: impl Fn(&str) -> Result<T, E>,
) -> impl Fn(&str) -> Result<Vec<T>, Allowed> {
    move |text| {
        let values = text.split(',').map(str::trim).filter(|value| !value.is_empty());
        let parsed: Result<_, _> = values.map(&parse).collect();
        match parsed {
            Ok(_) if text.contains(IMPOSSIBLE) => {
                Err(listed("values separated by commas".to_owned(), json!({"type": "string"})))
            }
            Ok(values) => Ok(values),
            Err(error) => {
                let Allowed { text, schema } = error.into();
                Err(listed(format!("values separated by commas, each {text}"), schema))
            }
        }
    }
}

/// Describes the values that a list allows, with the schema of one value.
fn listed(text: String, schema: Value) -> Allowed {
    let kind = schema.get("type").cloned().unwrap_or_else(|| "string".into());
    Allowed::new(text, json!({"anyOf": [{"type": kind}, {"type": "array", "items": schema}]}))
}

/// Parses a secret, such as a password or token. The value is never shown: not by `--check`,
/// `/config`, the help, errors, logs or `Debug`. [`ExposeSecret::expose_secret`] returns its text.
///
/// ```
/// use corelane_service::config::{Keys, Settings};
/// use corelane_service::value::{ExposeSecret, SecretString};
/// use corelane_service::{settings, value};
///
/// settings! {
///     /// A key.
///     struct Shop {
///         "shop.webhook" => webhook: SecretString = "hunter2", value::secret, "Secret part of the webhook";
///     }
/// }
///
/// let shop = Shop::parse(&Settings::default(), &mut Vec::new()).expect("defaults are valid");
/// assert_eq!(shop.webhook.expose_secret(), "hunter2");
/// assert!(!format!("{shop:?}").contains("hunter2") && Shop::KEYS[0].is_secret());
/// ```
///
/// # Errors
///
/// Describes the allowed values.
pub fn secret(text: &str) -> Result<SecretString, Allowed> {
    match text.contains(IMPOSSIBLE) {
        false => Ok(text.into()),
        true => Err(Allowed::new("text without NUL", json!({"type": "string", "writeOnly": true}))),
    }
}

/// Any text.
///
/// # Errors
///
/// Describes the allowed values.
pub fn text(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

/// A number from 0 to 1.
///
/// # Errors
///
/// Describes the allowed values.
pub fn ratio(text: &str) -> Result<f64, Allowed> {
    match text.parse() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err(Allowed::new(
            "a number from 0 to 1",
            json!({"type": ["number", "string"], "minimum": 0, "maximum": 1, "pattern": "^[-+.0-9Ee]+$"}),
        )),
    }
}

/// Path of a file, which need not exist; an empty text means no file.
///
/// # Errors
///
/// Describes the allowed values.
pub fn file(text: &str) -> Result<Option<PathBuf>, Allowed> {
    match text.contains(IMPOSSIBLE) {
        false => Ok((!text.is_empty()).then(|| PathBuf::from(text))),
        true => Err(Allowed::new("a path", json!({"type": "string", "format": "path"}))),
    }
}

/// Path of a readable folder; an empty text means no folder.
///
/// # Errors
///
/// Describes the allowed values.
pub fn folder(text: &str) -> Result<Option<PathBuf>, Allowed> {
    let path = PathBuf::from(text);
    match text {
        "" => Ok(None),
        _ if path.read_dir().is_ok() => Ok(Some(path)),
        _ => Err(Allowed::new(
            "a folder that can be read",
            json!({"type": "string", "format": "path"}),
        )),
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
                parse(wrong).is_err_and(|e| e.text.contains("unit") && e.text.contains("1.0 MiB")),
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
            let Err(Allowed { text, .. }) = parse(wrong) else { panic!("{wrong}") };
            assert!(text.contains("unit") && text.contains("1m"), "{text}");
        }
    }

    #[test]
    fn what_is_optional_may_be_off() {
        let parse = optional(number(1, 5));
        assert_eq!((parse("off"), parse("3")), (Ok(None), Ok(Some(3))));
        assert_eq!((parse("OFF"), parse("false")), (Ok(None), Ok(None)));
        assert_eq!(
            (switch("True"), switch("On"), switch("FALSE")),
            (Ok(true), Ok(true), Ok(false))
        );
        assert!(parse("9").is_err_and(|allowed| allowed.text.starts_with("off, or")));
    }

    #[test]
    fn each_value_of_a_list_is_parsed() {
        let parse = list(number(1, 5));
        assert_eq!((parse("1, 2,5"), parse("")), (Ok(vec![1, 2, 5]), Ok(vec![])));
        assert!(parse("1,9").is_err_and(|allowed| allowed.text.contains("each a whole number")));
    }

    #[test]
    fn names_fit_a_header_field() {
        assert!(name("server-0").is_ok());
        assert!(name("two words").is_err());
        assert!(name("line\nbreak").is_err());
    }
}
