//! All users on one event loop, each with at most one request in flight.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::epoll::Event;

use super::user::{Session, Site, User};
use crate::exchange::Kind;
use crate::hold::client::{Client, State, Way};
use crate::poll::Poll;
use crate::pool::{Answer, Lost, REPLY};
use crate::reply::Fault;
use crate::tally::Tally;

const PATIENCE: Duration = Duration::from_secs(30);

const CHECK: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) at: Duration,
    pub(crate) user: usize,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) struct UserLoop {
    site: Site,
    sessions: Vec<Session>,
    poll: Poll,
    tally: Tally,
    reopened: u64,
    /// Users with a request in flight or pending, or without an established connection.
    busy: usize,
    checked: Instant,
    out: Vec<u8>,
    buffer: Vec<u8>,
}

impl UserLoop {
    pub(crate) fn new(site: Site, users: usize, seed: u64) -> Result<Self, Lost> {
        Ok(UserLoop {
            site,
            sessions: (0..users).map(|number| Session::new(User::new(seed, number))).collect(),
            poll: Poll::new()?,
            tally: Tally::default(),
            reopened: 0,
            busy: 0,
            checked: Instant::now(),
            out: Vec::new(),
            buffer: vec![0; REPLY],
        })
    }

    /// Connects all users at once; each sends these requests in this many rounds at its own pace.
    pub(crate) fn closed(&mut self, kinds: &[Kind], rounds: usize) -> Result<Tally, Lost> {
        for session in &mut self.sessions {
            session.todo =
                (0..rounds).flat_map(|_| kinds.iter().map(|kind| (*kind, None))).collect();
        }
        let begun = Instant::now();
        self.connect_all()?;
        self.finish()?;
        Ok(self.end(begun))
    }

    /// Sends requests when they are due, on established connections. A request waits while its user
    /// waits for an earlier response, and its latency is measured from the time when it was due.
    pub(crate) fn open(&mut self, arrivals: &[Due]) -> Result<Tally, Lost> {
        self.connect_all()?;
        self.finish()?;
        for session in &mut self.sessions {
            // Whether the first response is correct depends on the first request, not on the
            // server.
            session.replied = true;
        }
        let mut events = Vec::with_capacity(self.sessions.len());
        let begun = Instant::now();
        for due in arrivals {
            loop {
                let wait = due.at.saturating_sub(begun.elapsed());
                self.turn(&mut events, wait)?;
                if begun.elapsed() >= due.at {
                    break;
                }
            }
            let session = &mut self.sessions[due.user];
            self.tally.start(begun.elapsed() - due.at, session.is_busy());
            self.busy += usize::from(!session.is_busy());
            session.todo.push_back((due.kind, Some(begun + due.at)));
            self.advance(due.user)?;
        }
        self.finish()?;
        Ok(self.end(begun))
    }

    /// Handles events between connects, so that the first connections need not wait for the last.
    fn connect_all(&mut self) -> Result<(), Lost> {
        self.busy = self.sessions.len();
        let mut events = Vec::with_capacity(self.sessions.len());
        for index in 0..self.sessions.len() {
            self.connect(index)?;
            self.turn(&mut events, Duration::ZERO)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Lost> {
        let mut events = Vec::with_capacity(self.sessions.len());
        while self.busy > 0 {
            self.turn(&mut events, CHECK)?;
        }
        Ok(())
    }

    fn end(&mut self, begun: Instant) -> Tally {
        let took = begun.elapsed();
        for session in &mut self.sessions {
            session.client = None;
        }
        let mut tally = std::mem::take(&mut self.tally);
        tally.end(std::mem::take(&mut self.reopened), took);
        tally
    }

    fn turn(&mut self, events: &mut Vec<Event>, wait: Duration) -> Result<(), Lost> {
        self.poll.wait(events, wait.min(CHECK))?;
        for event in events.iter() {
            self.look(event.data.u64() as usize)?;
        }
        if self.checked.elapsed() > CHECK {
            self.checked = Instant::now();
            for index in 0..self.sessions.len() {
                let asked = self.sessions[index].asked;
                if asked.is_some_and(|(_, since)| self.checked - since > PATIENCE) {
                    self.fail(index, Fault::Silence)?;
                }
            }
        }
        Ok(())
    }

    fn look(&mut self, index: usize) -> Result<(), Lost> {
        let session = &mut self.sessions[index];
        let Some(client) = &mut session.client else { return Ok(()) };
        match (client.state, session.asked) {
            (State::Connecting, _) => {
                if client.connected() {
                    self.tally.connected(client.times.begun.elapsed());
                    return self.next(index);
                }
                if client.state == State::Gone {
                    return self.fail(index, Fault::Connect);
                }
                Ok(())
            }
            (State::Asked, Some((kind, due))) => {
                let (user, site) = (&mut session.user, &self.site);
                if client.read_by(&mut self.buffer, |bytes| user.read(kind, site, bytes)) {
                    return self.answered(index, kind, due);
                }
                Ok(())
            }
            _ => {
                // The connection is idle, so the server may close it without loss.
                client.read_unasked(&mut self.buffer);
                if client.state == State::Gone {
                    session.client = None;
                }
                Ok(())
            }
        }
    }

    fn answered(&mut self, index: usize, kind: Kind, due: Instant) -> Result<(), Lost> {
        let read = Instant::now();
        let session = &mut self.sessions[index];
        session.asked = None;
        if let Some(client) = &mut session.client {
            let fault = client.fault.take();
            if fault != Some(Fault::Closed) && !std::mem::replace(&mut session.replied, true) {
                self.tally.first_reply(read - client.times.begun);
            }
            self.tally.add(&Answer { kind, due, read, fault, lane: client.lane });
            if client.state == State::Gone {
                session.client = None;
            }
        }
        self.next(index)
    }

    /// Handles the failure of a connection, which fails the request in flight or the next one.
    fn fail(&mut self, index: usize, fault: Fault) -> Result<(), Lost> {
        let session = &mut self.sessions[index];
        session.client = None;
        if session.asked.take().is_none() && session.todo.pop_front().is_none() {
            return Err(io::Error::other("no connection before an open loop").into());
        }
        self.tally.fault(fault, 1);
        self.next(index)
    }

    fn next(&mut self, index: usize) -> Result<(), Lost> {
        if self.sessions[index].todo.is_empty() {
            self.busy -= 1;
            return Ok(());
        }
        self.advance(index)
    }

    /// Sends the next request unless an earlier one is in flight.
    fn advance(&mut self, index: usize) -> Result<(), Lost> {
        let session = &mut self.sessions[index];
        if session.asked.is_some() {
            return Ok(());
        }
        let Some(client) = &mut session.client else {
            self.reopened += 1;
            return self.connect(index);
        };
        if client.state != State::Open {
            return Ok(());
        }
        let Some((kind, due)) = session.todo.pop_front() else { return Ok(()) };
        session.user.ask(kind, &self.site, &mut self.out);
        session.asked = Some((kind, due.unwrap_or_else(Instant::now)));
        // A request is much smaller than an empty send buffer.
        client.ask(&self.out);
        if client.state == State::Gone {
            return self.fail(index, Fault::Closed);
        }
        Ok(())
    }

    fn connect(&mut self, index: usize) -> Result<(), Lost> {
        let (way, now) = (Way::default(), Instant::now());
        let Ok(client) = Client::come(self.site.to, None, &way, now, (&self.poll, index)) else {
            return self.fail(index, Fault::Connect);
        };
        let session = &mut self.sessions[index];
        (session.client, session.replied) = (Some(client), false);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::thread;

    use serde_json::{Value, json};

    use super::*;

    const PAGE: &str = "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 4\r\n\r\npage";

    /// Serves all connections with numbered responses from 0; `None` closes the connection.
    fn server(answer: fn(usize) -> Option<&'static str>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            let mut number = 0;
            for socket in listener.incoming() {
                let mut socket = socket.expect("a connection");
                // A request arrives in one piece.
                while socket.read(&mut [0; 1024]).is_ok_and(|length| length > 0) {
                    number += 1;
                    let Some(reply) = answer(number - 1) else { break };
                    // Sent in two parts, which the reader must join.
                    let (start, rest) = reply.split_at(20);
                    socket.write_all(start.as_bytes()).expect("sent");
                    socket.write_all(rest.as_bytes()).expect("sent");
                }
            }
        });
        address
    }

    fn user_loop(to: SocketAddr) -> UserLoop {
        let site = Site { to, page: ("/".into(), b"page".to_vec()), token: String::new() };
        UserLoop::new(site, 1, 1).expect("an event loop")
    }

    fn report(tally: &Tally) -> Value {
        serde_json::from_str(&tally.json(Duration::ZERO)).expect("JSON")
    }

    #[test]
    fn a_lost_connection_costs_one_request() {
        let to = server(|number| (number != 3).then_some(PAGE));
        let report = report(&user_loop(to).closed(&[Kind::Page], 10).expect("a tally"));
        assert_eq!(report["requests"], json!(10));
        assert_eq!(report["faults"], json!({"closed": 1}));
        assert_eq!(report["latency_us"]["page"]["count"], json!(9));
        assert_eq!(report["reopened"], json!(1));
    }

    #[test]
    fn a_request_that_waits_for_another_counts_from_when_it_was_due() {
        const PAUSE: Duration = Duration::from_millis(200);
        let to = server(|number| {
            thread::sleep(if number == 0 { PAUSE } else { Duration::ZERO });
            Some(PAGE)
        });
        let due = |ms| Due { at: Duration::from_millis(ms), user: 0, kind: Kind::Page };
        let report = report(&user_loop(to).open(&[due(0), due(1)]).expect("a tally"));
        let page = &report["latency_us"]["page"];
        assert_eq!(page["count"], json!(2));
        // Both waited for the pause; the second began 1 ms after the first.
        assert!(page["0"].as_f64() >= Some(198_000.0), "{page}");
    }
}
