//! Names and ports of Kubernetes.

/// A port of the Service, by name or number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Name(String),
    Number(u16),
}

/// A namespace, or nothing.
pub(super) fn namespace(text: &str) -> Result<String, &'static str> {
    if text.is_empty() { Ok(String::new()) } else { name(text) }
}

/// An RFC 1123 label, which can be part of a label selector and of a path.
pub(super) fn name(text: &str) -> Result<String, &'static str> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = !text.starts_with('-') && !text.ends_with('-');
    match (1..=63).contains(&text.len()) && ends && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("allowed are up to 63 lower-case letters, digits and -, not at either end"),
    }
}

/// The name of a port (Kubernetes API, EndpointPort v1), or its number.
pub(super) fn port(text: &str) -> Result<Port, &'static str> {
    match text.parse() {
        Ok(number @ 1..) => Ok(Port::Number(number)),
        _ if text.parse::<i64>().is_ok() => Err("allowed is a number from 1 to 65535, or a name"),
        _ => name(text).map(Port::Name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_numbers_or_names() {
        assert_eq!(port("8080"), Ok(Port::Number(8080)));
        assert_eq!(port("http"), Ok(Port::Name("http".to_owned())));
        for text in ["", "0", "65536", "-1", "Http", "a b"] {
            assert!(port(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_those_of_kubernetes() {
        assert_eq!(name("shop-server"), Ok("shop-server".to_owned()));
        for text in ["", "-a", "a-", "a,b", "A", &"a".repeat(64)] {
            assert!(name(text).is_err(), "{text}");
        }
    }
}
