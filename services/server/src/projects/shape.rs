//! The schema of a document, and a single-pass validator.

use std::fmt;
use std::ops::RangeInclusive;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// The values that are allowed at a position in a document.
#[derive(Debug)]
pub(super) enum Shape {
    /// A string with its length in Unicode code points, as in JSON Schema.
    Text(RangeInclusive<usize>),
    Word(&'static [&'static str]),
    Bool,
    Array(usize, &'static Shape),
    /// An object with these members, each at most once; the first is required.
    Object(&'static [(&'static str, Shape)]),
}

pub(super) const PROJECT: Shape = Shape::Object(&[
    ("name", Shape::Text(1..=200)),
    ("description", Shape::Text(0..=2000)),
    ("status", Shape::Word(&["planned", "active", "done"])),
    ("tags", Shape::Array(20, &Shape::Text(1..=50))),
    ("tasks", Shape::Array(200, &TASK)),
]);

const TASK: Shape = Shape::Object(&[
    ("title", Shape::Text(1..=200)),
    ("done", Shape::Bool),
    ("notes", Shape::Text(0..=2000)),
]);

pub(super) fn has_length(text: &str, allowed: &RangeInclusive<usize>) -> bool {
    // A code point has at most four bytes, so most strings need no counting.
    let surely = text.len() <= *allowed.end() && text.len().div_ceil(4) >= *allowed.start();
    surely || allowed.contains(&text.chars().count())
}

impl Shape {
    /// Length of a text that is one JSON value of this shape, or `None` for any other text.
    /// Whitespace between tokens does not count, and an escaped character counts as one. Builds no
    /// tree and does not allocate.
    pub(super) fn measure(&self, text: &[u8]) -> Option<usize> {
        // Validating all of the text at once takes half as long as validating each string.
        let mut json = serde_json::Deserializer::from_str(str::from_utf8(text).ok()?);
        let length = self.deserialize(&mut json).ok()?;
        json.end().ok().map(|()| length)
    }
}

impl<'de> DeserializeSeed<'de> for &Shape {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        match self {
            Shape::Text(_) | Shape::Word(_) => deserializer.deserialize_str(self),
            Shape::Bool => deserializer.deserialize_bool(self),
            Shape::Array(..) => deserializer.deserialize_seq(self),
            Shape::Object(_) => deserializer.deserialize_map(self),
        }
    }
}

impl<'de> Visitor<'de> for &Shape {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<usize, E> {
        let fits = match self {
            Shape::Text(allowed) => has_length(text, allowed),
            Shape::Word(words) => words.contains(&text),
            _ => false,
        };
        if fits { Ok(text.len() + 2) } else { Err(unfit()) }
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<usize, E> {
        Ok(if value { "true".len() } else { "false".len() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<usize, A::Error> {
        let Shape::Array(most, each) = *self else { return Err(unfit()) };
        // A comma or the bracket follows each element.
        let (mut length, mut number) = (1, 0);
        while let Some(element) = elements.next_element_seed(each)? {
            length += element + 1;
            number += 1;
            if number > most {
                return Err(unfit());
            }
        }
        Ok(length.max(2))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<usize, A::Error> {
        let Shape::Object(allowed) = *self else { return Err(unfit()) };
        let (mut length, mut seen) = (1, 0u32);
        while let Some(index) = members.next_key_seed(Name(allowed))? {
            let (name, shape) = &allowed[index];
            // Adds the name in quotes with a colon, and a comma or the brace.
            length += name.len() + 3 + members.next_value_seed(shape)? + 1;
            if seen & 1 << index != 0 {
                return Err(unfit());
            }
            seen |= 1 << index;
        }
        if seen & 1 == 1 { Ok(length) } else { Err(unfit()) }
    }
}

struct Name(&'static [(&'static str, Shape)]);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<usize, E> {
        self.0.iter().position(|(name, _)| *name == text).ok_or_else(unfit)
    }
}

/// Gives no reason, because an invalid text is parsed again to find all errors.
fn unfit<E: Error>() -> E {
    E::custom("another shape")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_that_without_white_space() {
        let bare = r#"{"name":"é","tags":["a","b"],"tasks":[{"title":"t","done":false},{"title":"u","notes":""}],"status":"done"}"#;
        assert_eq!(PROJECT.measure(bare.as_bytes()), Some(bare.len()));
        let empty = r#"{"name":"n","tags":[],"tasks":[]}"#;
        assert_eq!(PROJECT.measure(empty.as_bytes()), Some(empty.len()));
        let spaced = r#" { "name" : "n" , "tags" : [ ] , "tasks":[ ]} "#;
        assert_eq!(PROJECT.measure(spaced.as_bytes()), Some(empty.len()));
        // The parsed value is shorter than the text, with or without whitespace.
        let escaped = r#"{"n\u0061me":"\n"}"#;
        assert_eq!(PROJECT.measure(escaped.as_bytes()), Some(escaped.len() - 6));
    }

    #[test]
    fn only_the_shape_itself_will_do() {
        for wrong in [
            "",
            "{}",
            "[]",
            r#"["n"]"#,
            r#"{"name":"n"} x"#,
            r#"{"name":"n"}{"#,
            r#"{"name":1}"#,
            r#"{"name":null}"#,
            r#"{"name":"n","status":{"done":null}}"#,
            r#"{"name":"n","description":null}"#,
            r#"{"name":"n","tasks":[["t"]]}"#,
            r#"{"name":"n","tasks":[{"done":true}]}"#,
            r#"{"name":"n","tasks":{}}"#,
            r#"{"name":"n","tasks":[{"title":"t","done":"true"}]}"#,
            r#"{"name":"n","x":1}"#,
            r#"{"name":"n","n\u0061me":"n"}"#,
            r#"{"name":"n",}"#,
            r#"{"name":"\ud800"}"#,
        ] {
            assert_eq!(PROJECT.measure(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(PROJECT.measure(b"{\"name\":\"\xff\"}"), None);
    }

    #[test]
    fn lengths_are_counted_where_bytes_do_not_tell() {
        for (text, allowed, fits) in [
            ("", 0..=2, true),
            ("", 1..=2, false),
            ("éé", 1..=2, true),
            ("ééé", 1..=2, false),
            ("𝄞𝄞", 1..=2, true),
            ("𝄞", 2..=4, false),
            ("abcd", 2..=4, true),
            ("abcde", 2..=4, false),
        ] {
            assert_eq!(has_length(text, &allowed), fits, "{text} {allowed:?}");
        }
    }
}
