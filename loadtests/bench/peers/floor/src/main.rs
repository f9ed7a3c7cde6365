//! What the kernel alone costs: one epoll loop that writes a fixed answer for each request head.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use memchr::memmem::Finder;
use peers::Options;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use slab::Slab;

/// As long as the reply of the reference service.
const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    corelane-replica: floor\r\n\
    corelane-lane: 0\r\n\
    content-length: 13\r\n\
    date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n\
    Hello, World!";

/// A request in one piece is shorter; what is longer ends the connection.
const REQUEST: usize = 4096;

const LISTENER: u64 = u64::MAX;

fn main() -> io::Result<()> {
    let options = Options::of_one_thread();
    let listener = options.listener()?;
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
            if answer(&connections[index], &mut buffer, &head_end).is_err() || ended {
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

/// Answers every complete head that one read brings; an error ends the connection.
fn answer(socket: &OwnedFd, buffer: &mut [u8], head_end: &Finder) -> Result<(), Errno> {
    let (read, _) = recv(socket, &mut *buffer, RecvFlags::empty())?;
    let request = &buffer[..read];
    if !request.ends_with(head_end.needle()) {
        return Err(Errno::PIPE);
    }
    for _ in head_end.find_iter(request) {
        if send(socket, REPLY, SendFlags::NOSIGNAL)? != REPLY.len() {
            return Err(Errno::PIPE);
        }
    }
    Ok(())
}
