//! A user with its connection.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use rustix::event::epoll::EventFlags;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use super::user::User;
use crate::exchange::Kind;
use crate::poll::Poll;

#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) user: User,
    pub(crate) socket: Option<OwnedFd>,
    /// When the connection was started; `None` after its first reply.
    pub(crate) begun: Option<Instant>,
    pub(crate) stands: bool,
    /// The request in flight, and when it was due.
    pub(crate) asked: Option<(Kind, Instant)>,
    /// The first part of a reply that arrived in several parts.
    pub(crate) part: Vec<u8>,
    /// The next requests. One without a due time is sent as soon as possible.
    pub(crate) todo: VecDeque<(Kind, Option<Instant>)>,
}

impl Seat {
    pub(crate) fn new(user: User) -> Self {
        Seat {
            user,
            socket: None,
            begun: None,
            stands: false,
            asked: None,
            part: Vec::new(),
            todo: VecDeque::new(),
        }
    }

    /// Something in flight or to do.
    pub(crate) fn is_busy(&self) -> bool {
        self.asked.is_some() || !self.todo.is_empty()
    }

    /// Starts a connection without waiting for it. Returns false if it failed at once.
    pub(crate) fn connect(
        &mut self,
        to: &SocketAddr,
        poll: &Poll,
        index: usize,
    ) -> io::Result<bool> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        (self.begun, self.stands) = (Some(Instant::now()), false);
        let result = connect(&socket, to);
        // Edge-triggered: one event when it is established, and one per reply.
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        poll.watch(&socket, index as u64, flags)?;
        self.socket = Some(socket);
        Ok(matches!(result, Ok(()) | Err(Errno::INPROGRESS)))
    }

    /// Closing a socket takes it out of the epoll set (epoll(7)).
    pub(crate) fn close(&mut self) {
        self.socket = None;
        self.stands = false;
        self.part.clear();
    }
}
