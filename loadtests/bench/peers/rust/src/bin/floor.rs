//! Kernel cost only: one epoll loop that writes a response per request head.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use clap::Parser;
use memchr::memchr;
use memchr::memmem::Finder;
use peers::{HELLO, Options, Work, half};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use slab::Slab;

/// Maximum size of a request in one piece. A larger request ends the connection.
const REQUEST: usize = 4096;

const LISTENER: u64 = u64::MAX;

/// The command line.
#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    options: Options,
    /// Folder served below /static/ from memory.
    #[arg(long = "static", value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

fn main() -> io::Result<()> {
    let Command { options, folder } = Command::parse();
    let replies = Replies::new(folder.as_deref())?;
    let listener = options.with_one_thread().listener()?;
    let poll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut connections: Slab<OwnedFd> = Slab::new();
    let mut events = Vec::with_capacity(1024);
    let mut buffer = [0; REQUEST];
    let head_end = Finder::new(HEAD_END);
    loop {
        match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.drain(..) {
            if event.data.u64() == LISTENER {
                accept(&poll, &listener, &mut connections)?;
                continue;
            }
            let index = event.data.u64() as usize;
            let flags = event.flags;
            let ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP);
            if answer(&connections[index], &mut buffer, &head_end, &replies).is_err() || ended {
                connections.remove(index);
            }
        }
    }
}

fn accept(poll: &OwnedFd, listener: impl AsFd, connections: &mut Slab<OwnedFd>) -> io::Result<()> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    while let Ok(socket) = accept_with(&listener, flags) {
        let entry = connections.vacant_entry();
        // Edge-triggered: a short read has returned everything (epoll(7)), and the kernel does not
        // check the socket again before new input arrives.
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(poll, &socket, EventData::new_u64(entry.key() as u64), flags)?;
        entry.insert(socket);
    }
    Ok(())
}

/// Answers every complete head of one read. An error ends the connection.
fn answer(
    socket: &OwnedFd,
    buffer: &mut [u8],
    head_end: &Finder,
    replies: &Replies,
) -> Result<(), Errno> {
    let (read, _) = recv(socket, &mut *buffer, RecvFlags::empty())?;
    let mut rest = &buffer[..read];
    while let Some(length) = head_end.find(rest) {
        let (head, next) = rest.split_at(length + HEAD_END.len());
        let (reply, closes) = replies.to(head);
        if send(socket, &reply, SendFlags::NOSIGNAL)? != reply.len() || closes {
            return Err(Errno::PIPE);
        }
        rest = next;
    }
    // Keeps no state between reads, so a split head gets no response.
    if rest.is_empty() && read > 0 { Ok(()) } else { Err(Errno::PIPE) }
}

/// These headers are as long as the reference service's headers, whose date changes.
const FIELDS: &str = "content-type: text/plain; charset=utf-8\r\n\
    corelane-replica: floor\r\n\
    corelane-lane: 0\r\n\
    date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
    content-length: ";

const HEAD_END: &[u8] = b"\r\n\r\n";

const HELLO_TARGET: &[u8] = b"/hello";

/// The prepared replies.
#[derive(Debug)]
struct Replies {
    hello: Vec<u8>,
    bad_request: Vec<u8>,
    not_found: Vec<u8>,
    /// By target.
    files: HashMap<Vec<u8>, Vec<u8>>,
}

impl Replies {
    /// Includes the files directly in a folder.
    fn new(folder: Option<&Path>) -> io::Result<Self> {
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
    fn to(&self, head: &[u8]) -> (Cow<'_, [u8]>, bool) {
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
        let made = match (text.strip_prefix("/div/"), text.starts_with("/work")) {
            (Some(n), _) => half(n),
            (_, true) => Work::of(text).map(Work::reply),
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
