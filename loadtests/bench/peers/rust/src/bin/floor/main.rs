//! The cost of the kernel alone: one epoll loop that writes a reply for each request head.

mod replies;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use clap::Parser;
use memchr::memmem::Finder;
use peers::Options;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use slab::Slab;

use crate::replies::{HEAD_END, Replies};

/// Maximum size of a request in one piece. A larger one ends the connection.
const REQUEST: usize = 4096;

const LISTENER: u64 = u64::MAX;

/// The command line.
#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    options: Options,
    /// Folder whose files are served below /static/, from memory.
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
    // Nothing is kept between reads, so a head in two pieces gets no reply.
    if rest.is_empty() && read > 0 { Ok(()) } else { Err(Errno::PIPE) }
}
