//! What the kernel alone costs: one epoll loop that writes a fixed answer for each request head.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use clap::Parser;
use memchr::memmem::Finder;
use peers::{HELLO, Options};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use slab::Slab;

/// As long as the reply of the reference service.
const HEAD: &str = "HTTP/1.1 200 OK\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    corelane-replica: floor\r\n\
    corelane-lane: 0\r\n\
    date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
    content-length: ";

/// A request in one piece is shorter; what is longer ends the connection.
const REQUEST: usize = 4096;

const PAGES: &[u8] = b"GET /static/";

const LISTENER: u64 = u64::MAX;

/// The command line.
#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    options: Options,
    /// A file that is sent, from memory, to who asks for a static one.
    #[arg(long)]
    page: Option<PathBuf>,
}

fn main() -> io::Result<()> {
    let Command { options, page } = Command::parse();
    let hello = reply(HELLO.as_bytes());
    let page =
        page.map(std::fs::read).transpose()?.map_or_else(|| hello.clone(), |page| reply(&page));
    let replies = [hello, page];
    let listener = options.with_one_thread().listener()?;
    let poll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut connections: Slab<OwnedFd> = Slab::new();
    let mut events = Vec::with_capacity(1024);
    let mut buffer = [0; REQUEST];
    let head_end = Finder::new(b"\r\n\r\n");
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
        // Edge-triggered: a read that is short has taken all (epoll(7)), and the kernel does not
        // look at the socket again before something new arrives.
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(poll, &socket, EventData::new_u64(entry.key() as u64), flags)?;
        entry.insert(socket);
    }
    Ok(())
}

fn reply(body: &[u8]) -> Vec<u8> {
    [format!("{HEAD}{}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

/// Answers every complete head that one read brings; an error ends the connection.
fn answer(
    socket: &OwnedFd,
    buffer: &mut [u8],
    head_end: &Finder,
    [hello, page]: &[Vec<u8>; 2],
) -> Result<(), Errno> {
    let (read, _) = recv(socket, &mut *buffer, RecvFlags::empty())?;
    let request = &buffer[..read];
    if !request.ends_with(head_end.needle()) {
        return Err(Errno::PIPE);
    }
    let reply = if request.starts_with(PAGES) { page } else { hello };
    for _ in head_end.find_iter(request) {
        if send(socket, reply, SendFlags::NOSIGNAL)? != reply.len() {
            return Err(Errno::PIPE);
        }
    }
    Ok(())
}
