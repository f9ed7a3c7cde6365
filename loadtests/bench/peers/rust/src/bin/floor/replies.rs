//! The replies: those to `/hello` and to files are made at the start.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use memchr::memchr;
use peers::{HELLO, Work, half};

/// As long as the headers of the reference service, whose date changes.
const FIELDS: &str = "content-type: text/plain; charset=utf-8\r\n\
    corelane-replica: floor\r\n\
    corelane-lane: 0\r\n\
    date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
    content-length: ";

pub(crate) const HEAD_END: &[u8] = b"\r\n\r\n";

const HELLO_TARGET: &[u8] = b"/hello";

/// The prepared replies.
#[derive(Debug)]
pub(crate) struct Replies {
    hello: Vec<u8>,
    bad_request: Vec<u8>,
    not_found: Vec<u8>,
    /// By target.
    files: HashMap<Vec<u8>, Vec<u8>>,
}

impl Replies {
    /// Includes the files directly in a folder.
    pub(crate) fn new(folder: Option<&Path>) -> io::Result<Self> {
        let mut files = HashMap::new();
        for entry in folder.map(fs::read_dir).transpose()?.into_iter().flatten() {
            let path = entry?.path();
            let Some(name) = path.file_name().filter(|_| path.is_file()) else { continue };
            let reply = reply("200 OK", &fs::read(&path)?);
            if name == "index.html" {
                files.insert(b"/static/".to_vec(), reply.clone());
            }
            files.insert([b"/static/", name.as_encoded_bytes()].concat(), reply);
        }
        Ok(Replies {
            hello: reply("200 OK", HELLO.as_bytes()),
            bad_request: reply("400 Bad Request", b""),
            not_found: reply("404 Not Found", b""),
            files,
        })
    }

    /// The reply to a request head, and whether it ends the connection, as for HTTP/1.0.
    pub(crate) fn to(&self, head: &[u8]) -> (Cow<'_, [u8]>, bool) {
        let Some(rest) = head.strip_prefix(b"GET ") else {
            return (Cow::Borrowed(self.not_found.as_slice()), true);
        };
        let Some(end) = memchr(b' ', rest) else {
            return (Cow::Borrowed(self.bad_request.as_slice()), true);
        };
        let (target, version) = rest.split_at(end);
        (self.of(target), version.starts_with(b" HTTP/1.0"))
    }

    fn of(&self, target: &[u8]) -> Cow<'_, [u8]> {
        if target == HELLO_TARGET {
            return Cow::Borrowed(&self.hello);
        }
        if let Some(reply) = self.files.get(target) {
            return Cow::Borrowed(reply);
        }
        let text = str::from_utf8(target).unwrap_or_default();
        let made = match (text.strip_prefix("/div/"), text.strip_prefix("/work")) {
            (Some(n), _) => half(n),
            (_, Some(query)) => query.strip_prefix('?').and_then(Work::parse).map(Work::reply),
            _ => return Cow::Borrowed(&self.not_found),
        };
        made.map_or(Cow::Borrowed(&self.bad_request), |body| {
            Cow::Owned(reply("200 OK", body.as_bytes()))
        })
    }
}

fn reply(status: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 {status}\r\n{FIELDS}{}\r\n\r\n", body.len()).as_bytes(), body].concat()
}
