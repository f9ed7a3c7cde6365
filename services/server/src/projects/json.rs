//! A JSON tree that keeps every member, including repeated ones.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A JSON value. Documents contain no numbers, so the values of numbers are not kept.
#[derive(Debug, PartialEq)]
pub(crate) enum Node<'a> {
    Null,
    Bool,
    Number,
    String(Cow<'a, str>),
    Array(Vec<Node<'a>>),
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl<'a> Node<'a> {
    /// Parses UTF-8 text that is one JSON value (RFC 8259), nested at most 127 deep.
    ///
    /// # Errors
    ///
    /// The error includes its position, for the client.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }
}

impl<'de> Deserialize<'de> for Node<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Tree)
    }
}

struct Tree;

impl<'de> Visitor<'de> for Tree {
    type Value = Node<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node<'de>, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node<'de>, E> {
        Ok(Node::Bool)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node<'de>, E> {
        Ok(Node::Number)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node<'de>, E> {
        Ok(Node::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node<'de>, E> {
        Ok(Node::Number)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Node<'de>, E> {
        Ok(Node::String(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node<'de>, E> {
        Ok(Node::String(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Node<'de>, A::Error> {
        let mut array = Vec::new();
        while let Some(element) = elements.next_element()? {
            array.push(element);
        }
        Ok(Node::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node<'de>, A::Error> {
        let mut object = Vec::new();
        while let Some((name, value)) = members.next_entry()? {
            let Node::String(name) = name else {
                return Err(A::Error::custom("the name of a member is a string"));
            };
            object.push((name, value));
        }
        Ok(Node::Object(object))
    }
}

/// Removes the whitespace between the tokens of a valid JSON text.
pub(crate) fn compact(text: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let between = rest.iter().position(|&byte| byte == b'"').unwrap_or(rest.len());
        let (tokens, strings) = rest.split_at(between);
        kept.extend(tokens.iter().filter(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r')));
        let (string, behind) = strings.split_at(string_length(strings));
        kept.extend_from_slice(string);
        rest = behind;
    }
    kept
}

/// Length of the string at the start of `text`, including its quotes; 0 for an empty text.
fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = text.get(at..).and_then(|rest| rest.iter().position(is_special)) {
        at += found + 1;
        if text[at - 1] == b'"' {
            return at;
        }
        // The escaped character may be a quote.
        at += 1;
    }
    text.len()
}

fn is_special(byte: &u8) -> bool {
    matches!(byte, b'"' | b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_members_are_kept() {
        let Ok(Node::Object(members)) = Node::parse(br#"{"a": 1, "a": [null], "\u0062": "x"}"#)
        else {
            panic!("an object")
        };
        let names: Vec<_> = members.iter().map(|(name, _)| name.as_ref()).collect();
        assert_eq!(names, ["a", "a", "b"]);
    }

    #[test]
    fn what_is_not_one_json_text_in_utf8_is_refused() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for wrong in [&b"{} x"[..], b"", b"{\"a\":\"\xff\"}", b"\"\\ud800\"", deep.as_bytes()] {
            assert!(Node::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn white_space_goes_only_between_tokens() {
        let text = "{ \"a \\\" b\" :\t[ 1 ,\r\n \"\\\\\" , \" \" ] }";
        assert_eq!(compact(text.as_bytes()), br#"{"a \" b":[1,"\\"," "]}"#);
    }
}
