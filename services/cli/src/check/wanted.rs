//! What is wanted, and what was seen of it.

use std::collections::BTreeSet;
use std::fmt;

use bytes::Bytes;
use hyper::header::HeaderName;
use hyper::{Response, StatusCode};

use super::ask::AskError;

/// What replies must be like.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) status: StatusCode,
    /// A header that they must have, and how many different values of it must be seen.
    pub(crate) header: Option<(HeaderName, usize)>,
    /// A text that their bodies must hold.
    pub(crate) body: Option<String>,
}

/// What was seen so far.
#[derive(Debug)]
pub(crate) struct Progress<'w> {
    wanted: &'w Wanted,
    values: BTreeSet<String>,
    replies: usize,
    /// The last answer or failure; none before the first.
    last: Option<String>,
}

impl<'w> Progress<'w> {
    pub(crate) fn new(wanted: &'w Wanted) -> Self {
        Self { wanted, values: BTreeSet::new(), replies: 0, last: None }
    }

    /// Takes an answer or its failure, and says whether all that is wanted was seen.
    pub(crate) fn note(&mut self, answer: Result<Response<Bytes>, AskError>) -> bool {
        let reply = match answer {
            Ok(reply) => reply,
            Err(error) => {
                self.last = Some(error.to_string());
                return false;
            }
        };
        self.replies += 1;
        let body = String::from_utf8_lossy(reply.body());
        let short: String = body.chars().take(200).collect();
        let mut last = format!("{} {short:?}", reply.status());
        if let Some(text) = self.wanted.body.as_ref().filter(|text| !body.contains(text.as_str())) {
            self.last = Some(last + &format!(" without {text:?}"));
            return false;
        }
        let enough = reply.status() == self.wanted.status
            && self.wanted.header.as_ref().is_none_or(|(header, distinct)| {
                match reply.headers().get(header) {
                    Some(value) => {
                        self.values.insert(String::from_utf8_lossy(value.as_bytes()).into());
                        self.values.len() >= *distinct
                    }
                    None => {
                        last += &format!(" without {header}");
                        false
                    }
                }
            });
        self.last = Some(last);
        enough
    }
}

impl fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} replies, wanted {}", self.replies, self.wanted.status)?;
        if let Some(text) = &self.wanted.body {
            write!(f, " with {text:?}")?;
        }
        if let Some((header, distinct)) = &self.wanted.header {
            let values: Vec<_> = self.values.iter().map(String::as_str).collect();
            write!(f, " and {distinct} of {header}, seen [{}]", values.join(", "))?;
        }
        let last = self.last.as_deref().unwrap_or("no answer before the deadline");
        write!(f, "; last: {last}")
    }
}
