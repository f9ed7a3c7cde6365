//! Validates project documents.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Display;

use bytes::Bytes;
use corelane::Problem;
use http::StatusCode;
use serde_json::json;

use super::json::{Node, compact};
use super::shape::{PROJECT, Shape, has_length};

/// Maximum number of faults in a response: enough to act on, but few enough to limit the response's
/// size.
const MOST_FAULTS: usize = 20;

/// The text to store: the client's document without whitespace between tokens.
///
/// # Errors
///
/// The response then lists the faults.
pub(crate) fn validate(text: Bytes) -> Result<Bytes, Problem> {
    match PROJECT.measure(&text) {
        // Most clients send this form.
        Some(length) if length == text.len() => Ok(text),
        Some(_) => Ok(compact(&text).into()),
        None => Err(refuse(&text)),
    }
}

fn refuse(text: &[u8]) -> Problem {
    match Node::parse(text) {
        Ok(tree) => Faults::of(&tree).into_problem(),
        Err(error) => Problem::new(StatusCode::BAD_REQUEST, "bad-json")
            .detail(format!("the body must be one JSON text in UTF-8: {error}")),
    }
}

#[cfg(feature = "fuzzing")]
pub(crate) fn is_one(text: &[u8]) -> bool {
    PROJECT.measure(text).is_some()
}

#[cfg(feature = "fuzzing")]
pub(crate) fn has_no_fault(text: &[u8]) -> bool {
    Node::parse(text).is_ok_and(|tree| Faults::of(&tree).found.is_empty())
}

/// Position of an error (RFC 6901) and the allowed values.
#[derive(Debug, PartialEq)]
struct Fault {
    pointer: String,
    detail: String,
}

#[derive(Debug, Default)]
struct Faults {
    found: Vec<Fault>,
    pointer: String,
}

impl Faults {
    fn of(tree: &Node<'_>) -> Self {
        let mut faults = Faults::default();
        faults.look(&PROJECT, tree);
        faults
    }

    fn look(&mut self, shape: &Shape, node: &Node<'_>) {
        match (shape, node) {
            (Shape::Text(length), Node::String(text)) if has_length(text, length) => {}
            (Shape::Text(length), _) => {
                self.note(format!("a string of {} to {} characters", length.start(), length.end()));
            }
            (Shape::Word(words), Node::String(text)) if words.contains(&text.as_ref()) => {}
            (Shape::Word(words), _) => self.note(format!("one of {}", words.join(", "))),
            (Shape::Bool, Node::Bool) => {}
            (Shape::Bool, _) => self.note("true or false"),
            (Shape::Array(most, each), Node::Array(elements)) if elements.len() <= *most => {
                for (index, element) in elements.iter().enumerate() {
                    self.descend(index, |faults| faults.look(each, element));
                }
            }
            (Shape::Array(most, _), _) => self.note(format!("an array of at most {most} elements")),
            (Shape::Object(allowed), Node::Object(members)) => self.members(allowed, members),
            (Shape::Object(_), _) => self.note("an object"),
        }
    }

    fn members(&mut self, allowed: &[(&str, Shape)], members: &[(Cow<'_, str>, Node<'_>)]) {
        let (required, _) = allowed[0];
        if !members.iter().any(|(name, _)| name == required) {
            self.descend(required, |faults| faults.note("is required"));
        }
        // Parsers disagree about which of two members with the same name they use (RFC 8259 section
        // 4).
        let mut seen = HashSet::new();
        for (name, value) in members {
            let first = seen.insert(name.as_ref());
            let known = allowed.iter().find(|(known, _)| *known == name.as_ref());
            self.descend(name, |faults| match known {
                _ if !first => faults.note("given once"),
                Some((_, shape)) => faults.look(shape, value),
                None => faults.unknown(allowed),
            });
        }
    }

    fn note(&mut self, detail: impl Into<String>) {
        self.found.push(Fault { pointer: self.pointer.clone(), detail: detail.into() });
    }

    fn unknown(&mut self, allowed: &[(&str, Shape)]) {
        let names: Vec<_> = allowed.iter().map(|(name, _)| *name).collect();
        self.note(format!("unknown member; expected {}", names.join(", ")));
    }

    /// Checks a child unless there are enough faults already.
    fn descend(&mut self, step: impl Display, look: impl FnOnce(&mut Self)) {
        if self.found.len() < MOST_FAULTS {
            let length = self.pointer.len();
            self.pointer.push('/');
            self.pointer.push_str(&step.to_string().replace('~', "~0").replace('/', "~1"));
            look(self);
            self.pointer.truncate(length);
        }
    }

    fn into_problem(self) -> Problem {
        let errors: Vec<_> = self
            .found
            .iter()
            .map(|fault| json!({"pointer": fault.pointer, "detail": fault.detail}))
            .collect();
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-document")
            .detail("the document is not a project; errors lists what is allowed where")
            .member("errors", errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Faults of a text. If there are none, asserts that both validators agree.
    fn faults(text: &str) -> Vec<(String, String)> {
        let faults = Faults::of(&Node::parse(text.as_bytes()).expect("JSON")).found;
        assert_eq!(PROJECT.measure(text.as_bytes()).is_some(), faults.is_empty(), "{text}");
        faults.into_iter().map(|fault| (fault.pointer, fault.detail)).collect()
    }

    #[test]
    fn a_whole_document_is_taken() {
        let whole = r#"{"name": "é", "description": "", "status": "done", "tags": ["a"],
            "tasks": [{"title": "t", "done": false, "notes": "\u0000"}]}"#;
        assert_eq!(faults(whole), []);
    }

    #[test]
    fn each_fault_is_told_with_where_it_is() {
        let wrong = r#"{"status": "new", "tags": ["", 5], "a/b~c": 1, "tags": [],
            "tasks": [{"done": 1}, 7]}"#;
        let found = faults(wrong);
        let pointers: Vec<_> = found.iter().map(|(pointer, _)| pointer.as_str()).collect();
        assert_eq!(
            pointers,
            [
                "/name",
                "/status",
                "/tags/0",
                "/tags/1",
                "/a~1b~0c",
                "/tags",
                "/tasks/0/title",
                "/tasks/0/done",
                "/tasks/1"
            ]
        );
    }

    #[test]
    fn lengths_count_code_points() {
        let name = |n| format!(r#"{{"name": "{}"}}"#, "é".repeat(n));
        assert_eq!(faults(&name(200)), []);
        assert_eq!(faults(&name(201)).len(), 1);
        assert_eq!(faults(&name(0)).len(), 1);
    }

    #[test]
    fn no_more_faults_are_told_than_a_reply_should_hold() {
        let wrong = format!(r#"{{"name": "n", "tasks": [{}]}}"#, vec!["1"; 200].join(","));
        assert_eq!(faults(&wrong).len(), MOST_FAULTS);
    }

    #[test]
    fn both_ways_to_look_at_a_text_agree() {
        const WHOLE: &[u8] = br#" {"name":"\u00e9", "description":"\"", "status":"done",
            "tags":["a","b"], "tasks":[{"title":"t","done":true,"notes":"\\"},{"title":"u"}]}"#;
        const BYTES: &[u8] = b"{}[]:,\"\\ nutef10\xc3\xa9";
        let mut random = fastrand::Rng::with_seed(1);
        let mut documents = 0;
        for _ in 0..10_000 {
            let mut text = WHOLE.to_vec();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..text.len());
                let byte = BYTES[random.usize(..BYTES.len())];
                match random.u8(..3) {
                    0 => text[at] = byte,
                    1 => text.insert(at, byte),
                    _ => drop(text.remove(at)),
                }
            }
            let good = Node::parse(&text).is_ok_and(|tree| Faults::of(&tree).found.is_empty());
            let stored = validate(Bytes::from(text.clone())).ok();
            assert_eq!(stored.is_some(), good, "{}", String::from_utf8_lossy(&text));
            assert!(stored.is_none_or(|stored| stored == compact(&text)));
            documents += u32::from(good);
        }
        assert!(documents > 100, "{documents}");
    }
}
