//! A rush: connections that are all opened in the same moment, each with one request. None is left
//! out of what is told, however long it takes.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{connect, recv, send, socket_with};
use rustix::time::Timespec;

use crate::exchange::{Exchange, Exchanges, Kind};
use crate::pool::{Answer, Lost, REPLY};
use crate::reply::{self, Fault};
use crate::tally::Tally;

/// Longest wait for the next answer of any; a SYN is sent again after 1, 3, 7 and 15 s (RFC 6298).
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// One of them.
#[derive(Debug)]
pub(crate) struct Guest {
    socket: OwnedFd,
    came: Instant,
    asked: bool,
    answered: bool,
    part: Vec<u8>,
}

/// Opens `count` connections at once, and waits for the replies on all of them.
pub(crate) fn run(to: SocketAddr, count: usize, exchanges: &Exchanges) -> Result<Tally, Lost> {
    let poll = epoll::create(CreateFlags::CLOEXEC).map_err(io::Error::from)?;
    let exchange = exchanges.of(Kind::Hello);
    let mut tally = Tally::default();
    let mut buffer = vec![0; REPLY];
    let mut events = Vec::with_capacity(count);
    let begun = Instant::now();
    let mut guests = (0..count)
        .map(|index| Guest::come(to, index, &poll))
        .collect::<Result<Vec<_>, _>>()
        .map_err(io::Error::from)?;
    let mut left = count;
    while left > 0 {
        events.clear();
        let timeout = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
        match epoll::wait(&poll, spare_capacity(&mut events), Some(&timeout)) {
            Err(Errno::INTR) => continue,
            other => other.map_err(io::Error::from)?,
        };
        if events.is_empty() {
            tally.unsent(left);
            break;
        }
        for event in &events {
            let guest = &mut guests[event.data.u64() as usize];
            if let Some(answer) = guest.proceed(exchange, &mut buffer) {
                tally.add(&answer);
                left -= 1;
            }
        }
    }
    tally.end(0, begun.elapsed());
    Ok(tally)
}

impl Guest {
    /// Begins to connect.
    pub(crate) fn come(to: SocketAddr, index: usize, poll: &OwnedFd) -> rustix::io::Result<Guest> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        let came = Instant::now();
        match connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        // Edge-triggered: one event when it is connected, and one for what arrives.
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        epoll::add(poll, &socket, EventData::new_u64(index as u64), flags)?;
        Ok(Guest { socket, came, asked: false, answered: false, part: Vec::new() })
    }

    /// Asks when it is connected, then reads; the end of its exchange, once.
    pub(crate) fn proceed(&mut self, exchange: &Exchange, buffer: &mut [u8]) -> Option<Answer> {
        if self.answered {
            return None;
        }
        let asked =
            if std::mem::replace(&mut self.asked, true) { Ok(()) } else { self.ask(exchange) };
        // A server that refuses may have answered already, and there is no second event for that.
        let (fault, lane) = match asked {
            Ok(()) => self.read(exchange, buffer)?,
            Err(fault) => fault,
        };
        self.answered = true;
        Some(Answer { kind: Kind::Hello, due: self.came, read: Instant::now(), fault, lane })
    }

    fn ask(&self, exchange: &Exchange) -> Result<(), (Option<Fault>, Option<usize>)> {
        let connected = socket_error(&self.socket).and_then(|outcome| outcome);
        connected.map_err(|_| (Some(Fault::Connect), None))?;
        match send(&self.socket, &exchange.request, SendFlags::NOSIGNAL) {
            Ok(length) if length == exchange.request.len() => Ok(()),
            _ => Err((Some(Fault::Closed), None)),
        }
    }

    fn read(
        &mut self,
        exchange: &Exchange,
        buffer: &mut [u8],
    ) -> Option<(Option<Fault>, Option<usize>)> {
        let arrived = match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
            Ok((_, 0)) => return Some((Some(Fault::Closed), None)),
            Ok((_, length)) => length,
            Err(Errno::AGAIN | Errno::INTR) => return None,
            Err(_) => return Some((Some(Fault::Closed), None)),
        };
        self.part.extend_from_slice(&buffer[..arrived]);
        let reply = reply::read(&self.part, &exchange.body)?;
        Some((reply.fault, reply.lane))
    }
}
