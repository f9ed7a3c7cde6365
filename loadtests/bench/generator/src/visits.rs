//! Each request has its own connection, with a fixed number of connections at a time. Whenever a
//! response arrives, a new connection replaces the old one. Connections open independently, so a
//! lost SYN does not delay the other connections.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::exchange::{Exchange, Kind};
use crate::hold::client::{Client, State, Way};
use crate::poll::Poll;
use crate::pool::{Answer, Lost, REPLY};
use crate::tally::Tally;
use clap::Args;

/// Duration of the visits.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Length of the measured part in seconds; later answers are ignored.
    #[arg(long)]
    seconds: f64,
    /// Length of the same load before the measured part, in seconds.
    #[arg(long, default_value_t = 0.0)]
    warm_up: f64,
}

#[derive(Debug)]
struct Visits {
    to: SocketAddr,
    exchange: Exchange,
    kind: Kind,
    poll: Poll,
    clients: Vec<Client>,
    buffer: Vec<u8>,
}

impl Visits {
    fn begin(to: SocketAddr, count: usize, kind: Kind, exchange: Exchange) -> Result<Self, Lost> {
        let (poll, clients, buffer) = (Poll::new()?, Vec::new(), vec![0; REPLY]);
        let mut visits = Visits { to, exchange, kind, poll, clients, buffer };
        for index in 0..count {
            let client = visits.come(index)?;
            visits.clients.push(client);
        }
        Ok(visits)
    }

    fn until(&mut self, until: Instant, mut answered: impl FnMut(Answer)) -> Result<(), Lost> {
        let mut events = Vec::with_capacity(self.clients.len());
        loop {
            let left = until - Instant::now();
            if left.is_zero() {
                return Ok(());
            }
            self.poll.wait(&mut events, left)?;
            for event in &events {
                let index = event.data.u64() as usize;
                let client = &mut self.clients[index];
                let Some(read) = proceed(client, &self.exchange, &mut self.buffer) else {
                    continue;
                };
                let (due, fault, lane) = (client.times.begun, client.fault, client.lane);
                answered(Answer { kind: self.kind, due, read, fault, lane });
                self.clients[index] = self.come(index)?;
            }
        }
    }

    fn come(&mut self, index: usize) -> Result<Client, Lost> {
        let client =
            Client::come(self.to, None, &Way::default(), Instant::now(), (&self.poll, index));
        Ok(client.map_err(io::Error::from)?)
    }
}

/// Sends the request once connected, then reads. Returns true once, when the exchange is over.
fn proceed(client: &mut Client, exchange: &Exchange, buffer: &mut [u8]) -> Option<Instant> {
    if client.state == State::Gone {
        return None;
    }
    if client.state == State::Connecting && client.connected() {
        client.ask(&exchange.request);
    }
    // A server that rejects may have responded already, and there is no second event for that.
    let ended = match client.state {
        State::Connecting => false,
        State::Asked => client.read(exchange, buffer),
        State::Open | State::Gone => true,
    };
    if !ended {
        return None;
    }
    client.end(None);
    client.times.gone
}

/// Prints `warm` after the warm-up and the result at the end, so that the caller can read the
/// server's clock at both ends under load.
///
/// The measured part lasts from the last answer of the warm-up to its own last answer. Requests in
/// flight at either end do not count.
pub(crate) fn run(
    to: SocketAddr,
    count: usize,
    kind: Kind,
    exchange: &Exchange,
    plan: &Plan,
) -> Result<Tally, Lost> {
    let mut tally = Tally::default();
    let mut last = Instant::now();
    let mut visits = Visits::begin(to, count, kind, closing(exchange))?;
    if plan.warm_up > 0.0 {
        visits.until(after(plan.warm_up), |answer| {
            last = answer.read;
            // A wrong answer always counts.
            if answer.fault.is_some() {
                tally.add(&answer);
            }
        })?;
    }
    let begun = last;
    crate::say("\"warm\"")?;
    visits.until(after(plan.seconds), |answer| {
        tally.add(&answer);
        last = answer.read;
    })?;
    tally.end(0, last - begun);
    Ok(tally)
}

fn after(seconds: f64) -> Instant {
    Instant::now() + Duration::from_secs_f64(seconds)
}

/// The request with `Connection: close` (RFC 9112 section 9.6). The server then closes first, so
/// that its side enters TIME-WAIT and the client's ports stay free.
fn closing(exchange: &Exchange) -> Exchange {
    let head = exchange.request.strip_suffix(b"\r\n").unwrap_or(&exchange.request);
    Exchange { request: [head, b"Connection: close\r\n\r\n"].concat(), body: exchange.body.clone() }
}
