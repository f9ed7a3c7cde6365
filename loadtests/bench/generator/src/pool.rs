//! Keep-alive connections with at most one request in flight each, to one server or to several
//! equivalent ones, such as gateways.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::epoll::{Event, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::exchange::{Exchanges, Kind};
use crate::poll::Poll;
use crate::reply::{self, Fault, Reply};

pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Read size, larger than any arrival, because edge-triggered polling reports no second event for
/// the rest (epoll(7)).
pub(crate) const REPLY: usize = 64 << 10;

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Lost(#[from] io::Error);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) kind: Kind,
    pub(crate) due: Instant,
    pub(crate) read: Instant,
    pub(crate) fault: Option<Fault>,
    pub(crate) lane: Option<usize>,
}

#[derive(Debug)]
struct Connection {
    socket: TcpStream,
    asked: Option<(Kind, Instant)>,
    part: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Pool {
    to: Vec<SocketAddr>,
    exchanges: Exchanges,
    poll: Poll,
    connections: Vec<Connection>,
    in_flight: usize,
    reopened: u64,
    buffer: Box<[u8; REPLY]>,
}

impl Pool {
    pub(crate) fn open(
        to: Vec<SocketAddr>,
        count: usize,
        exchanges: Exchanges,
    ) -> Result<Self, Lost> {
        let poll = Poll::new()?;
        let connections = Vec::with_capacity(count);
        let buffer = Box::new([0; REPLY]);
        let (in_flight, reopened) = (0, 0);
        let mut pool = Pool { to, exchanges, poll, connections, in_flight, reopened, buffer };
        (0..count).try_for_each(|_| pool.add())?;
        Ok(pool)
    }

    pub(crate) fn spin(&mut self, spins: bool) {
        self.poll.spins = spins;
    }

    pub(crate) fn add(&mut self) -> Result<(), Lost> {
        let socket = self.connect(self.connections.len())?;
        self.connections.push(Connection { socket, asked: None, part: Vec::new() });
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    pub(crate) fn targets(&self) -> usize {
        self.to.len()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Sends a request that was due at `due` on a connection without one in flight.
    pub(crate) fn ask(&mut self, index: usize, kind: Kind, due: Instant) -> Result<(), Lost> {
        let request = &self.exchanges.of(kind).request;
        // If the server has closed a keep-alive connection, retry once on a new connection.
        if send(&self.connections[index].socket, request, SendFlags::NOSIGNAL) != Ok(request.len())
        {
            self.reopen(index)?;
            let request = &self.exchanges.of(kind).request;
            send(&self.connections[index].socket, request, SendFlags::NOSIGNAL)
                .map_err(io::Error::from)?;
        }
        self.connections[index].asked = Some((kind, due));
        self.in_flight += 1;
        Ok(())
    }

    /// Waits up to `timeout` for a connection to have data to read.
    pub(crate) fn wait(&self, events: &mut Vec<Event>, timeout: Duration) -> Result<(), Lost> {
        Ok(self.poll.wait(events, timeout)?)
    }

    /// Returns an answer if the arrived bytes complete an exchange.
    pub(crate) fn receive(&mut self, index: usize) -> Result<Option<Answer>, Lost> {
        let connection = &mut self.connections[index];
        let buffer = &mut self.buffer[..];
        let arrived = match recv(&connection.socket, &mut *buffer, RecvFlags::empty()) {
            Ok((_, length)) => length,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(_) => 0,
        };
        let Some((kind, due)) = connection.asked else {
            // The connection is idle: the server has closed it, which is allowed, or sent data
            // without a request.
            self.reopen(index)?;
            return Ok(None);
        };
        let body = &self.exchanges.of(kind).body;
        let reply = if arrived == 0 {
            Some(Reply { fault: Some(Fault::Closed), closes: true, lane: None })
        } else if connection.part.is_empty() {
            reply::read(&buffer[..arrived], body)
        } else {
            connection.part.extend_from_slice(&buffer[..arrived]);
            reply::read(&connection.part, body)
        };
        let Some(reply) = reply else {
            if connection.part.is_empty() {
                connection.part.extend_from_slice(&buffer[..arrived]);
            }
            return Ok(None);
        };
        connection.part.clear();
        connection.asked = None;
        self.in_flight -= 1;
        let answer =
            Answer { kind, due, read: Instant::now(), fault: reply.fault, lane: reply.lane };
        if reply.closes {
            self.reopen(index)?;
        }
        Ok(Some(answer))
    }

    pub(crate) fn give_up(&mut self) -> Result<usize, Lost> {
        for index in 0..self.connections.len() {
            if self.connections[index].asked.take().is_some() {
                self.reopen(index)?;
            }
        }
        Ok(std::mem::take(&mut self.in_flight))
    }

    /// Connections reopened since the last call because the server closed them.
    pub(crate) fn take_reopened(&mut self) -> u64 {
        std::mem::take(&mut self.reopened)
    }

    fn reopen(&mut self, index: usize) -> Result<(), Lost> {
        self.reopened += 1;
        // Closing the old socket removes it from the epoll set (epoll(7)).
        self.connections[index].socket = self.connect(index)?;
        self.connections[index].part.clear();
        Ok(())
    }

    fn connect(&self, index: usize) -> Result<TcpStream, Lost> {
        let socket = TcpStream::connect_timeout(&self.to[index % self.to.len()], PATIENCE)?;
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        // Edge-triggered: one event per response.
        let flags = EventFlags::IN | EventFlags::ET;
        self.poll.watch(&socket, index as u64, flags).map_err(io::Error::from)?;
        Ok(socket)
    }
}
