//! What is wanted, and what was seen of it.

use std::collections::BTreeSet;
use std::fmt;

use bytes::Bytes;
use hyper::header::HeaderName;
use hyper::{Response, StatusCode};

use crate::ask::AskError;

/// What replies must be like.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) status: StatusCode,
    /// A header that they must have, and how many different values of it must be seen.
    pub(crate) header: Option<(HeaderName, usize)>,
}

/// What was seen so far.
#[derive(Debug)]
pub(crate) struct Progress<'w> {
    wanted: &'w Wanted,
    values: BTreeSet<String>,
    replies: usize,
    last: String,
}

impl<'w> Progress<'w> {
    pub(crate) fn new(wanted: &'w Wanted) -> Self {
        Self { wanted, values: BTreeSet::new(), replies: 0, last: "no answer yet".to_owned() }
    }

    /// Takes an answer or its failure, and says whether all that is wanted was seen.
    pub(crate) fn note(&mut self, answer: Result<Response<Bytes>, AskError>) -> bool {
        let reply = match answer {
            Ok(reply) => reply,
            Err(error) => {
                self.last = error.to_string();
                return false;
            }
        };
        self.replies += 1;
        let body = String::from_utf8_lossy(reply.body());
        let short: String = body.chars().take(200).collect();
        self.last = format!("{} {short:?}", reply.status());
        if reply.status() != self.wanted.status {
            return false;
        }
        let Some((header, distinct)) = &self.wanted.header else { return true };
        match reply.headers().get(header) {
            Some(value) => self.values.insert(String::from_utf8_lossy(value.as_bytes()).into()),
            None => {
                self.last = format!("{} without {header}", self.last);
                return false;
            }
        };
        self.values.len() >= *distinct
    }

    /// Notes that the deadline came before the answer.
    pub(crate) fn unanswered(&mut self) {
        self.last = "no answer before the deadline".to_owned();
    }
}

impl fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} replies, wanted {}", self.replies, self.wanted.status)?;
        if let Some((header, distinct)) = &self.wanted.header {
            let values: Vec<_> = self.values.iter().map(String::as_str).collect();
            write!(f, " and {distinct} of {header}, seen [{}]", values.join(", "))?;
        }
        write!(f, "; last: {}", self.last)
    }
}
