//! What is expected of the replies, and what was seen.

use std::collections::BTreeSet;
use std::fmt;

use bytes::Bytes;
use hyper::Response;

use super::Check;
use crate::get::GetError;

/// The replies to date.
#[derive(Debug)]
pub(super) struct Progress<'c> {
    expected: &'c Check,
    values: BTreeSet<String>,
    replies: usize,
    /// The last reply or error; none before the first.
    last: Option<String>,
}

impl<'c> Progress<'c> {
    pub(super) fn new(expected: &'c Check) -> Self {
        Self { expected, values: BTreeSet::new(), replies: 0, last: None }
    }

    /// Records a reply or its error. Returns whether everything expected was seen.
    pub(super) fn note(&mut self, reply: Result<Response<Bytes>, GetError>) -> bool {
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => {
                self.last = Some(error.to_string());
                return false;
            }
        };
        self.replies += 1;
        let body = String::from_utf8_lossy(reply.body());
        let short: String = body.chars().take(200).collect();
        let missing = self.missing(&reply, &body);
        let last = format!("{} {short:?}", reply.status());
        self.last = Some(missing.iter().fold(last, |last, what| last + " without " + what));
        missing.is_none()
            && reply.status() == self.expected.status
            && (self.expected.header.is_none()
                || self.values.len() as u64 >= self.expected.distinct)
    }

    /// What is missing in the reply. Counts the value of its header.
    fn missing(&mut self, reply: &Response<Bytes>, body: &str) -> Option<String> {
        let Check { header, body: text, status, .. } = self.expected;
        if let Some(text) = text.as_ref().filter(|text| !body.contains(text.as_str())) {
            return Some(format!("{text:?}"));
        }
        let header = header.as_ref().filter(|_| reply.status() == *status)?;
        let Some(value) = reply.headers().get(header) else { return Some(header.to_string()) };
        self.values.insert(String::from_utf8_lossy(value.as_bytes()).into());
        None
    }
}

impl fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Check { status, header, distinct, body, .. } = self.expected;
        write!(f, "{} replies, expected {status}", self.replies)?;
        if let Some(text) = body {
            write!(f, " with {text:?}")?;
        }
        if let Some(header) = header {
            let values: Vec<_> = self.values.iter().map(String::as_str).collect();
            write!(f, " and {distinct} of {header}, seen [{}]", values.join(", "))?;
        }
        let last = self.last.as_deref().unwrap_or("no reply before the deadline");
        write!(f, "; last: {last}")
    }
}
