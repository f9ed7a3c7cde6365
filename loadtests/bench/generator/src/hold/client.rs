//! One held connection.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size, socket_error};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::net::{bind, connect, socket_with};

use super::link::{Link, Security};
use crate::exchange::Exchange;
use crate::poll::Poll;
use crate::reply::{self, Fault, Reply};

/// The kernel's minimum buffer size, which fills a slow reader's window quickly (tcp(7)).
const SMALL: usize = 1;

const LITTLE: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Connecting,
    Open,
    Asked,
    Gone,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) due: Instant,
    pub(crate) begun: Instant,
    pub(crate) connected: Option<Instant>,
    pub(crate) answered: Option<Instant>,
    pub(crate) gone: Option<Instant>,
}

#[derive(Debug, Default)]
pub(crate) struct Way {
    /// Close with a reset, which frees the ports for the next run.
    pub(crate) reset: bool,
    pub(crate) small: bool,
    pub(crate) security: Option<Security>,
}

#[derive(Debug)]
pub(crate) struct Client {
    link: Link,
    pub(crate) state: State,
    pub(crate) times: Times,
    pub(crate) fault: Option<Fault>,
    pub(crate) lane: Option<usize>,
    /// Status of a response without a request, such as the response to a header timeout.
    pub(crate) refusal: Option<u16>,
    part: Vec<u8>,
}

impl Client {
    pub(crate) fn come(
        to: SocketAddr,
        from: Option<IpAddr>,
        way: &Way,
        due: Instant,
        (poll, index): (&Poll, usize),
    ) -> rustix::io::Result<Client> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        if way.reset {
            set_socket_linger(&socket, Some(Duration::ZERO))?;
        }
        if way.small {
            set_socket_recv_buffer_size(&socket, SMALL)?;
        }
        if let Some(from) = from {
            bind(&socket, &SocketAddr::new(from, 0))?;
        }
        let begun = Instant::now();
        match connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        // Edge-triggered: one event when the connection is established, and one per arrival of
        // data.
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        poll.watch(&socket, index as u64, flags)?;
        let times = Times { due, begun, connected: None, answered: None, gone: None };
        let state = State::Connecting;
        let (fault, lane, refusal) = (None, None, None);
        let link = Link::new(TcpStream::from(socket), way.security.as_ref());
        Ok(Client { link, state, times, fault, lane, refusal, part: Vec::new() })
    }

    pub(crate) fn connected(&mut self) -> bool {
        let outcome = socket_error(self.link.socket()).and_then(|outcome| outcome);
        match outcome.map_err(|_| ()).and_then(|()| self.link.shake().map_err(|_| ())) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(()) => {
                self.end(Some(Fault::Connect));
                return false;
            }
        }
        self.times.connected = Some(Instant::now());
        self.state = State::Open;
        true
    }

    pub(crate) fn ask(&mut self, request: &[u8]) {
        self.part.clear();
        if self.send(request) {
            self.state = State::Asked;
        } else {
            self.end(Some(Fault::Closed));
        }
    }

    /// Returns false if the connection does not accept the bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.link.send(bytes)
    }

    /// Reads the response to its request. Returns true once the exchange is over, for any reason.
    pub(crate) fn read(&mut self, exchange: &Exchange, buffer: &mut [u8]) -> bool {
        self.read_by(buffer, |bytes| reply::read(bytes, &exchange.body))
    }

    /// Like [`Client::read`], with another parser, which returns `None` while the bytes are
    /// incomplete.
    pub(crate) fn read_by(
        &mut self,
        buffer: &mut [u8],
        judge: impl FnOnce(&[u8]) -> Option<Reply>,
    ) -> bool {
        let arrived = match self.link.receive(buffer) {
            Ok(length) if length > 0 => length,
            Err(Errno::AGAIN | Errno::INTR) => return false,
            _ => {
                self.end(Some(Fault::Closed));
                return true;
            }
        };
        let reply = if self.part.is_empty() {
            judge(&buffer[..arrived])
        } else {
            self.part.extend_from_slice(&buffer[..arrived]);
            judge(&self.part)
        };
        let Some(Reply { fault, closes, lane }) = reply else {
            if self.part.is_empty() {
                self.part.extend_from_slice(&buffer[..arrived]);
            }
            return false;
        };
        self.times.answered = Some(Instant::now());
        (self.fault, self.lane, self.state) = (fault, lane, State::Open);
        self.part = Vec::new();
        if closes {
            self.end(fault);
        }
        true
    }

    /// Reads from a connection that sent no request: a rejection, or the end of the stream.
    pub(crate) fn read_unasked(&mut self, buffer: &mut [u8]) {
        loop {
            match self.link.receive(buffer) {
                Ok(length) if length > 0 => {
                    let status = buffer[..length].strip_prefix(b"HTTP/1.1 ");
                    let digits = status.and_then(|status| status.get(..3));
                    let number =
                        digits.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
                    self.refusal = number.or(self.refusal);
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                _ => return self.end(None),
            }
        }
    }

    pub(crate) fn read_a_little(&mut self) {
        let mut bytes = [0; LITTLE];
        match self.link.receive(&mut bytes) {
            Ok(length) if length > 0 => {}
            Err(Errno::AGAIN | Errno::INTR) => {}
            _ => self.end(None),
        }
    }

    /// Records the end of a connection, unless the end of the measurement interrupted its request.
    pub(crate) fn end(&mut self, fault: Option<Fault>) {
        self.state = State::Gone;
        self.fault = self.fault.or(fault);
        self.times.gone = self.times.gone.or_else(|| Some(Instant::now()));
    }
}
