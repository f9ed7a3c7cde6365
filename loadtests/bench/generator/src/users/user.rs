//! One user: its requests, and the check of their responses.

use std::collections::VecDeque;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Instant;

use super::document::Document;
use crate::exchange::Kind;
use crate::hold::client::Client;
use crate::reply::{self, Fault, Message, Reply};

#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) to: SocketAddr,
    /// Target and content of the file.
    pub(crate) page: (String, Vec<u8>),
    pub(crate) token: String,
}

#[derive(Debug)]
pub(crate) struct User {
    document: Document,
    /// Path of the user's project; empty before it is created.
    target: String,
    /// `None` after a failed save, when the stored version is unknown.
    etag: Option<String>,
    page_etag: Option<String>,
}

impl User {
    pub(crate) fn new(seed: u64, number: usize) -> Self {
        let document = Document::new(seed, number);
        User { document, target: String::new(), etag: None, page_etag: None }
    }

    pub(crate) fn ask(&mut self, kind: Kind, site: &Site, out: &mut Vec<u8>) {
        out.clear();
        let Site { to, page: (page, _), token } = site;
        let (verb, target) = match kind {
            Kind::Create => ("POST", "/projects"),
            Kind::Load => ("GET", self.target.as_str()),
            Kind::Save => ("PUT", self.target.as_str()),
            _ => ("GET", page.as_str()),
        };
        // Writing to memory cannot fail.
        let _ = write!(out, "{verb} {target} HTTP/1.1\r\nHost: {to}\r\n");
        if matches!(kind, Kind::Create | Kind::Save) {
            self.document.revise();
            let text = self.document.text();
            let length = text.len();
            let _ = write!(out, "Authorization: Bearer {token}\r\n");
            let _ = write!(out, "Content-Type: application/json\r\nContent-Length: {length}\r\n");
            // Unknown until the response arrives.
            if let Some(etag) = self.etag.take() {
                let _ = write!(out, "If-Match: {etag}\r\n");
            }
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(text);
        } else {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// The checked response in `bytes`; `None` while it is incomplete.
    pub(crate) fn read(&mut self, kind: Kind, site: &Site, bytes: &[u8]) -> Option<Reply> {
        let Ok(message) = reply::parse(bytes) else { return Some(Reply::MALFORMED) };
        let message = message?;
        let fault = self.check(kind, site, &message).err();
        Some(Reply { fault, closes: message.closes, lane: message.lane })
    }

    pub(crate) fn check(
        &mut self,
        kind: Kind,
        site: &Site,
        reply: &Message<'_>,
    ) -> Result<(), Fault> {
        let status = if kind == Kind::Create { 201 } else { 200 };
        if reply.status != status {
            return Err(Fault::Status(reply.status));
        }
        let etag = reply.etag.ok_or(Fault::Field)?;
        if kind == Kind::Page {
            return self.check_page(&site.page.1, etag, reply.body);
        }
        if kind == Kind::Create {
            let target = reply.location.filter(|target| target.starts_with("/projects/"));
            self.target = target.ok_or(Fault::Field)?.to_owned();
        }
        let known = kind != Kind::Load || self.etag.is_some();
        if known && !self.document.is_shown_by(reply.body, self.id()) {
            return Err(Fault::Body);
        }
        match &self.etag {
            Some(known) if known != etag => return Err(Fault::Field),
            Some(_) => {}
            // After a failed save, a load may find either version.
            None if kind == Kind::Load => {}
            None => self.etag = Some(etag.to_owned()),
        }
        Ok(())
    }

    fn check_page(&mut self, page: &[u8], etag: &str, body: &[u8]) -> Result<(), Fault> {
        if body != page {
            return Err(Fault::Body);
        }
        let known = self.page_etag.get_or_insert_with(|| etag.to_owned());
        if known == etag { Ok(()) } else { Err(Fault::Field) }
    }

    fn id(&self) -> &str {
        self.target.rsplit('/').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        let to = "127.0.0.1:80".parse().expect("an address");
        Site { to, page: ("/static/4k.txt".into(), b"page".to_vec()), token: "secret".into() }
    }

    fn body(user: &User, id: &str) -> Vec<u8> {
        let own = format!(r#"{{"id":"{id}","version":1,"#);
        [own.as_bytes(), &user.document.text()[1..]].concat()
    }

    fn created() -> (User, Site) {
        let (mut user, site) = (User::new(1, 1), site());
        user.ask(Kind::Create, &site, &mut Vec::new());
        let body = body(&user, "a1");
        let reply = Message {
            status: 201,
            body: &body,
            etag: Some("\"1\""),
            location: Some("/projects/a1"),
            ..Message::default()
        };
        assert_eq!(user.check(Kind::Create, &site, &reply), Ok(()));
        (user, site)
    }

    fn replied<'a>(body: &'a [u8], etag: &'a str) -> Message<'a> {
        Message { status: 200, body, etag: Some(etag), ..Message::default() }
    }

    #[test]
    fn a_load_must_show_the_last_save() {
        let (mut user, site) = created();
        let old = body(&user, "a1");
        user.ask(Kind::Save, &site, &mut Vec::new());
        let new = body(&user, "a1");
        assert_eq!(user.check(Kind::Save, &site, &replied(&old, "\"2\"")), Err(Fault::Body));
        assert_eq!(user.check(Kind::Save, &site, &replied(&new, "\"2\"")), Ok(()));
        assert_eq!(user.check(Kind::Load, &site, &replied(&new, "\"2\"")), Ok(()));
        assert_eq!(user.check(Kind::Load, &site, &replied(&old, "\"2\"")), Err(Fault::Body));
        assert_eq!(user.check(Kind::Load, &site, &replied(&new, "\"1\"")), Err(Fault::Field));
    }

    #[test]
    fn after_a_failed_save_either_version_may_be_loaded() {
        let (mut user, site) = created();
        let old = body(&user, "a1");
        user.ask(Kind::Save, &site, &mut Vec::new());
        let busy = Message { status: 503, ..Message::default() };
        assert_eq!(user.check(Kind::Save, &site, &busy), Err(Fault::Status(503)));
        assert_eq!(user.check(Kind::Load, &site, &replied(&old, "\"1\"")), Ok(()));
        let mut out = Vec::new();
        user.ask(Kind::Save, &site, &mut out);
        assert!(!String::from_utf8_lossy(&out).contains("If-Match"));
    }

    #[test]
    fn a_page_is_the_file_with_one_etag() {
        let (mut user, site) = created();
        let mut check = |body, etag| user.check(Kind::Page, &site, &replied(body, etag));
        assert_eq!(check(b"page", "\"x\""), Ok(()));
        assert_eq!(check(b"bage", "\"x\""), Err(Fault::Body));
        assert_eq!(check(b"page", "\"y\""), Err(Fault::Field));
    }
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) user: User,
    pub(crate) client: Option<Client>,
    pub(crate) replied: bool,
    /// The request in flight, and when it was due.
    pub(crate) asked: Option<(Kind, Instant)>,
    /// The next requests. Requests without a due time are sent as soon as possible.
    pub(crate) todo: VecDeque<(Kind, Option<Instant>)>,
}

impl Session {
    pub(crate) fn new(user: User) -> Self {
        Session { user, client: None, replied: false, asked: None, todo: VecDeque::new() }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.asked.is_some() || !self.todo.is_empty()
    }
}
