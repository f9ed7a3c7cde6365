//! Test cases, and the table of them in `docs/conformance.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::wire::Received;

/// Requirement level (RFC 2119).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Must,
    Should,
    May,
}

/// An action of the client, or an event that it waits for.
pub(crate) enum Step {
    /// Latin-1: one byte per character.
    Send(String),
    End,
    Reply(Expected),
}

impl Step {
    pub(crate) fn bytes(&self) -> Option<String> {
        match self {
            Step::Send(bytes) => Some(bytes.clone()),
            Step::End => Some("(end)".to_owned()),
            Step::Reply(_) => None,
        }
    }
}

/// State of the connection after the last step.
#[derive(Clone, Copy)]
pub(crate) enum After {
    /// Closed by the server, with no further bytes.
    Closed,
    Open,
}

pub(crate) struct Case {
    /// For example `9112 6.1`.
    pub(crate) section: &'static str,
    pub(crate) level: Level,
    pub(crate) what: &'static str,
    pub(crate) steps: Vec<Step>,
    pub(crate) after: After,
    /// Reason why a SHOULD is not followed.
    pub(crate) departs: Option<&'static str>,
}

fn case(section: &'static str, level: Level, what: &'static str, bytes: &str) -> Case {
    let steps = vec![Step::Send(bytes.to_owned())];
    Case { section, level, what, steps, after: After::Open, departs: None }
}

pub(crate) fn must(section: &'static str, what: &'static str, bytes: &str) -> Case {
    case(section, Level::Must, what, bytes)
}

pub(crate) fn should(section: &'static str, what: &'static str, bytes: &str) -> Case {
    case(section, Level::Should, what, bytes)
}

pub(crate) fn may(section: &'static str, what: &'static str, bytes: &str) -> Case {
    case(section, Level::May, what, bytes)
}

impl Case {
    pub(crate) fn then(mut self, bytes: &str) -> Case {
        self.steps.push(Step::Send(bytes.to_owned()));
        self
    }

    pub(crate) fn end(mut self) -> Case {
        self.steps.push(Step::End);
        self
    }

    pub(crate) fn gives(mut self, expected: Expected) -> Case {
        self.steps.push(Step::Reply(expected));
        self
    }

    /// 200 with this body.
    pub(crate) fn says(self, body: &'static str) -> Case {
        self.gives(reply(200).body(body))
    }

    pub(crate) fn closes(mut self) -> Case {
        self.after = After::Closed;
        self
    }

    /// A problem of this status and type, after which the connection closes.
    pub(crate) fn refused_with(self, status: u16, slug: &'static str) -> Case {
        self.gives(problem(status, slug).has("connection", "close")).closes()
    }

    pub(crate) fn departs(mut self, reason: &'static str) -> Case {
        self.departs = Some(reason);
        self
    }
}

pub(crate) struct Expected {
    status: u16,
    has: Vec<(&'static str, &'static str)>,
    lacks: Vec<&'static str>,
    body: Option<&'static str>,
    mentions: Vec<&'static str>,
    problem: Option<&'static str>,
    pub(crate) bodiless: bool,
}

pub(crate) fn reply(status: u16) -> Expected {
    let (has, lacks, mentions) = (vec![], vec![], vec![]);
    Expected { status, has, lacks, body: None, mentions, problem: None, bodiless: false }
}

pub(crate) fn problem(status: u16, slug: &'static str) -> Expected {
    let expected = reply(status).has("content-type", "application/problem+json").has("date", "*");
    Expected { problem: Some(slug), ..expected }
}

impl Expected {
    pub(crate) fn body(mut self, body: &'static str) -> Expected {
        self.body = Some(body);
        self
    }

    pub(crate) fn mentions(mut self, words: &'static str) -> Expected {
        self.mentions.push(words);
        self
    }

    /// A field with this value. `*` matches any value.
    pub(crate) fn has(mut self, name: &'static str, value: &'static str) -> Expected {
        self.has.push((name, value));
        self
    }

    pub(crate) fn lacks(mut self, name: &'static str) -> Expected {
        self.lacks.push(name);
        self
    }

    /// No body despite its fields, as for HEAD.
    pub(crate) fn bodiless(mut self) -> Expected {
        self.bodiless = true;
        self
    }

    pub(crate) fn check(&self, received: Received) -> Result<(), String> {
        let fails = |what: String| Err(format!("{what} in {received:?}"));
        if received.status != self.status {
            return fails(format!("not {}", self.status));
        }
        for (name, value) in &self.has {
            match &received.values(name)[..] {
                [only] if *value == "*" || only == value => {}
                values => return fails(format!("{name}: {values:?}, not {value:?}")),
            }
        }
        for name in &self.lacks {
            if !received.values(name).is_empty() {
                return fails((*name).to_owned());
            }
        }
        if self.body.is_some_and(|body| body != received.body) {
            return fails(format!("not {:?}", self.body));
        }
        if let Some(words) = self.mentions.iter().find(|words| !received.body.contains(**words)) {
            return fails(format!("no {words:?}"));
        }
        let member = |slug: &str| format!("\"type\":\"urn:corelane:problem:{slug}\"");
        if self.problem.is_some_and(|slug| !received.body.contains(&member(slug))) {
            return fails(format!("not {:?}", self.problem));
        }
        Ok(())
    }
}

pub(crate) fn sections(cases: &[Case]) -> String {
    let mut counts: BTreeMap<Vec<u32>, (&str, [usize; 3])> = BTreeMap::new();
    for case in cases {
        let key = case.section.split([' ', '.']).map(|n| n.parse().expect("a number")).collect();
        let (_, levels) = counts.entry(key).or_insert((case.section, [0; 3]));
        levels[match case.level {
            Level::Must => 0,
            Level::Should => 1,
            Level::May => 2,
        }] += 1;
    }
    let mut text = "| RFC and section | MUST | SHOULD | MAY |\n|---|---|---|---|\n".to_owned();
    let mut sums = [0; 3];
    for (section, levels) in counts.values() {
        let (rfc, section) = section.split_once(' ').expect("RFC and section");
        writeln!(text, "| {rfc}, {section} | {} |", levels.map(|n| n.to_string()).join(" | "))
            .expect("text");
        sums = std::array::from_fn(|i| sums[i] + levels[i]);
    }
    writeln!(text, "| all: {} | {} |", cases.len(), sums.map(|n| n.to_string()).join(" | "))
        .expect("text");
    text
}

/// Cases that deviate from a SHOULD.
pub(crate) fn departures(cases: &[Case]) -> String {
    let mut text = "| RFC and section | Behaviour | Reason |\n|---|---|---|\n".to_owned();
    for case in cases {
        let Some(reason) = case.departs else { continue };
        assert_eq!(case.level, Level::Should, "only a SHOULD may be departed from: {}", case.what);
        let (rfc, section) = case.section.split_once(' ').expect("RFC and section");
        writeln!(text, "| {rfc}, {section} | {} | {reason} |", case.what).expect("text");
    }
    text
}
