//! What a project's document may hold.

use std::fmt::Display;
use std::ops::RangeInclusive;

use bytes::Bytes;
use corelane::Problem;
use http::StatusCode;
use serde_json::json;

use super::json::{Node, compact};

/// Most faults that a reply lists: enough to act on, and a bound on its size.
const MOST_FAULTS: usize = 20;

/// The text to store of a document that a client sent: its own without white space between tokens.
///
/// # Errors
///
/// The reply that says what is wrong.
pub(crate) fn validate(text: &[u8]) -> Result<Bytes, Problem> {
    let tree = Node::parse(text).map_err(|error| {
        Problem::new(StatusCode::BAD_REQUEST, "bad-json")
            .detail(format!("the body must be one JSON text in UTF-8: {error}"))
    })?;
    let mut faults = Faults::default();
    faults.project(&tree);
    if faults.found.is_empty() { Ok(compact(text).into()) } else { Err(faults.into_problem()) }
}

/// A fault: where it is (RFC 6901) and what is allowed there.
#[derive(Debug, PartialEq)]
struct Fault {
    pointer: String,
    detail: String,
}

/// Walks a document and notes what is wrong with it.
#[derive(Debug, Default)]
struct Faults {
    found: Vec<Fault>,
    /// Where the walk is.
    pointer: String,
}

impl Faults {
    fn project(&mut self, node: &Node<'_>) {
        const ALLOWED: [&str; 5] = ["name", "description", "status", "tags", "tasks"];
        self.object(node, "name", |faults, name, value| match name {
            "name" => faults.text(value, 1..=200),
            "description" => faults.text(value, 0..=2000),
            "status" => faults.word(value, &["planned", "active", "done"]),
            "tags" => faults.array(value, 20, |faults, tag| faults.text(tag, 1..=50)),
            "tasks" => faults.array(value, 200, Faults::task),
            _ => faults.unknown(&ALLOWED),
        });
    }

    fn task(&mut self, node: &Node<'_>) {
        const ALLOWED: [&str; 3] = ["title", "done", "notes"];
        self.object(node, "title", |faults, name, value| match name {
            "title" => faults.text(value, 1..=200),
            "done" if *value != Node::Bool => faults.note("true or false"),
            "done" => {}
            "notes" => faults.text(value, 0..=2000),
            _ => faults.unknown(&ALLOWED),
        });
    }

    fn note(&mut self, detail: impl Into<String>) {
        self.found.push(Fault { pointer: self.pointer.clone(), detail: detail.into() });
    }

    fn unknown(&mut self, allowed: &[&str]) {
        self.note(format!("unknown member; allowed are {}", allowed.join(", ")));
    }

    /// Looks at what is one step further down, unless enough is known to be wrong.
    fn descend(&mut self, step: impl Display, look: impl FnOnce(&mut Self)) {
        if self.found.len() < MOST_FAULTS {
            let length = self.pointer.len();
            self.pointer.push('/');
            self.pointer.push_str(&step.to_string().replace('~', "~0").replace('/', "~1"));
            look(self);
            self.pointer.truncate(length);
        }
    }

    fn object(
        &mut self,
        node: &Node<'_>,
        required: &str,
        look: impl Fn(&mut Self, &str, &Node<'_>),
    ) {
        let Node::Object(members) = node else { return self.note("an object") };
        if !members.iter().any(|(name, _)| name == required) {
            self.descend(required, |faults| faults.note("is required"));
        }
        // Readers differ in which of two equal names they take (RFC 8259 section 4).
        let mut seen = std::collections::HashSet::new();
        for (name, value) in members {
            let first = seen.insert(name.as_ref());
            self.descend(name, |faults| match first {
                true => look(faults, name, value),
                false => faults.note("given once"),
            });
        }
    }

    fn array(&mut self, node: &Node<'_>, most: usize, look: impl Fn(&mut Self, &Node<'_>)) {
        match node {
            Node::Array(elements) if elements.len() <= most => {
                for (index, element) in elements.iter().enumerate() {
                    self.descend(index, |faults| look(faults, element));
                }
            }
            _ => self.note(format!("an array of at most {most} elements")),
        }
    }

    /// A string whose length is counted in Unicode code points, as JSON Schema does.
    fn text(&mut self, node: &Node<'_>, length: RangeInclusive<usize>) {
        if !matches!(node, Node::String(text) if length.contains(&text.chars().count())) {
            self.note(format!("a string of {} to {} characters", length.start(), length.end()));
        }
    }

    fn word(&mut self, node: &Node<'_>, words: &[&str]) {
        if !matches!(node, Node::String(text) if words.contains(&text.as_ref())) {
            self.note(format!("one of {}", words.join(", ")));
        }
    }

    fn into_problem(self) -> Problem {
        let errors: Vec<_> = self
            .found
            .iter()
            .map(|fault| json!({"pointer": fault.pointer, "detail": fault.detail}))
            .collect();
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-document")
            .detail("the document is not a project; errors says what is allowed where")
            .member("errors", errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<(String, String)> {
        let mut faults = Faults::default();
        faults.project(&Node::parse(text.as_bytes()).expect("JSON"));
        faults.found.into_iter().map(|fault| (fault.pointer, fault.detail)).collect()
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
}
