//! The held connections and their event loop.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use rustix::event::epoll::{Event, EventFlags};
use rustix::fd::AsFd;

use super::Manner;
use super::client::{Client, State, Way};
use crate::exchange::{Exchange, Exchanges, Kind};
use crate::poll::Poll;
use crate::pool::{Lost, REPLY};
use crate::reply::Fault;

/// Maximum wait for any event. A SYN is retransmitted after 1, 3, 7 and 15 s (RFC 6298).
const PATIENCE: Duration = Duration::from_secs(30);

/// Time between two bytes of a slow connection.
const PAUSE: Duration = Duration::from_secs(1);

const EVENTS: usize = 4096;

const CALLER: u64 = u64::MAX;

const ENDED: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

/// Reports only a single event, so that a line that arrives early does not keep waking up a stage.
const HEARD: EventFlags = EventFlags::IN.union(EventFlags::ONESHOT);

#[derive(Debug)]
pub(crate) struct Setting {
    /// Server addresses; connections alternate between them.
    pub(crate) to: Vec<SocketAddr>,
    /// Source addresses; connections to each server alternate between them.
    pub(crate) from: Vec<IpAddr>,
    pub(crate) manner: Manner,
    pub(crate) way: Way,
    pub(crate) exchanges: Exchanges,
}

#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) begun: Instant,
    /// Interval between connections; zero starts all at once.
    pub(crate) gap: Duration,
    /// Maximum number of connections to start before reading responses.
    pub(crate) burst: usize,
    /// No connection starts while this many are in flight.
    pub(crate) window: usize,
    pub(crate) ask: bool,
    /// Connections that have not started, in order.
    pub(crate) coming: VecDeque<usize>,
    /// Connections that have started and not finished.
    pub(crate) in_flight: usize,
    pub(crate) most: usize,
    started: u32,
}

impl Stage {
    pub(crate) fn new(begun: Instant, gap: Duration, coming: VecDeque<usize>, ask: bool) -> Stage {
        let (burst, window) = (usize::MAX, usize::MAX);
        Stage { begun, gap, burst, window, ask, coming, in_flight: 0, most: 0, started: 0 }
    }

    fn is_next_free(&self) -> bool {
        !self.coming.is_empty() && self.in_flight < self.window
    }

    fn due(&self) -> Instant {
        self.begun + self.gap * self.started
    }
}

pub(crate) struct ClientLoop {
    setting: Setting,
    poll: Poll,
    pub(crate) clients: Vec<Client>,
    /// Time at which each slow connection continues. All pauses are equal, so the queue stays in
    /// order.
    slow: VecDeque<(Instant, usize)>,
    buffer: Vec<u8>,
    events: Vec<Event>,
}

impl ClientLoop {
    pub(crate) fn new(setting: Setting) -> Result<ClientLoop, Lost> {
        let (poll, clients, slow) = (Poll::new()?, Vec::new(), VecDeque::new());
        let (buffer, events) = (vec![0; REPLY], Vec::with_capacity(EVENTS));
        Ok(ClientLoop { setting, poll, clients, slow, buffer, events })
    }

    /// Makes `attend` return when the caller writes.
    pub(crate) fn listen(&self, caller: impl AsFd) -> Result<(), Lost> {
        Ok(self.poll.watch(caller, CALLER, HEARD).map_err(io::Error::from)?)
    }

    /// Runs a stage for all connections. Connections without a response count as silent once events
    /// stop.
    pub(crate) fn run(&mut self, stage: &mut Stage) -> Result<(), Lost> {
        let mut progress = Instant::now();
        while !stage.coming.is_empty() || stage.in_flight > 0 {
            let before = (stage.coming.len(), stage.in_flight);
            self.turn(Some(&mut *stage), PATIENCE)?;
            if (stage.coming.len(), stage.in_flight) != before || stage.is_next_free() {
                progress = Instant::now();
            } else if progress.elapsed() >= PATIENCE {
                break;
            }
        }
        for client in &mut self.clients {
            if matches!(client.state, State::Connecting | State::Asked) && stage.in_flight > 0 {
                client.end(Some(Fault::Silence));
            }
        }
        Ok(())
    }

    /// Handles the connections until the caller has written.
    pub(crate) fn attend(&mut self, caller: impl AsFd) -> Result<(), Lost> {
        self.poll.rearm(caller, CALLER, HEARD)?;
        while !self.turn(None, PATIENCE)? {}
        Ok(())
    }

    /// One turn of the loop. Returns whether the caller has written.
    fn turn(&mut self, mut stage: Option<&mut Stage>, most: Duration) -> Result<bool, Lost> {
        let mut next = self.feed();
        if let Some(stage) = stage.as_deref_mut() {
            self.begin(stage)?;
            if stage.is_next_free() {
                next = Some(next.map_or(stage.due(), |slow| slow.min(stage.due())));
            }
        }
        let wait = next.map_or(most, |next| next.saturating_duration_since(Instant::now()));
        self.poll.wait(&mut self.events, wait.min(most))?;
        let mut called = false;
        let events = std::mem::take(&mut self.events);
        for event in &events {
            if event.data.u64() == CALLER {
                called = true;
            } else {
                self.proceed(*event, stage.as_deref_mut());
            }
        }
        self.events = events;
        Ok(called)
    }

    fn begin(&mut self, stage: &mut Stage) -> Result<(), Lost> {
        for _ in 0..stage.burst {
            let due = stage.due();
            if due > Instant::now() || stage.in_flight >= stage.window {
                break;
            }
            let Some(index) = stage.coming.pop_front() else { break };
            stage.started += 1;
            if index < self.clients.len() {
                self.ask(index, due);
            } else {
                let client = self.come(index, due).map_err(io::Error::from)?;
                self.clients.push(client);
            }
            stage.in_flight += usize::from(self.clients[index].state != State::Gone);
            stage.most = stage.most.max(stage.in_flight);
        }
        Ok(())
    }

    fn come(&self, index: usize, due: Instant) -> rustix::io::Result<Client> {
        let Setting { to, from, way, .. } = &self.setting;
        let from = from.get(index / to.len() % from.len().max(1)).copied();
        let to = to[index % to.len()];
        Client::come(to, from, way, due, (&self.poll, index))
    }

    fn ask(&mut self, index: usize, due: Instant) {
        let exchange = self.setting.exchanges.of(Kind::Hello);
        let client = &mut self.clients[index];
        (client.times.due, client.times.begun, client.times.answered) = (due, Instant::now(), None);
        client.ask(&exchange.request);
    }

    fn proceed(&mut self, event: Event, stage: Option<&mut Stage>) {
        let (index, flags) = (event.data.u64() as usize, event.flags);
        let exchange = self.setting.exchanges.of(Kind::Hello);
        let client = &mut self.clients[index];
        let before = client.state;
        if before == State::Connecting && client.connected() {
            match self.setting.manner {
                Manner::Idle if stage.as_ref().is_some_and(|stage| stage.ask) => {
                    client.ask(&exchange.request)
                }
                Manner::Idle => {}
                manner => slowly(client, manner, exchange),
            }
            if self.setting.manner != Manner::Idle {
                self.slow.push_back((Instant::now() + PAUSE, index));
            }
        }
        match client.state {
            // A server that rejects may have responded already, and there is no second event for
            // that.
            State::Asked => _ = client.read(exchange, &mut self.buffer),
            State::Open if before != State::Open => {}
            State::Open if self.setting.manner == Manner::SlowRead => {
                if flags.intersects(ENDED) {
                    client.end(None);
                }
            }
            State::Open => client.read_unasked(&mut self.buffer),
            State::Connecting | State::Gone => {}
        }
        let busy = |state| matches!(state, State::Connecting | State::Asked);
        if let Some(stage) = stage
            && busy(before)
            && !busy(client.state)
        {
            stage.in_flight -= 1;
        }
    }

    /// Continues slow connections that are due. Returns when the next one is due.
    fn feed(&mut self) -> Option<Instant> {
        while let Some((due, index)) = self.slow.front().copied() {
            if due > Instant::now() {
                return Some(due);
            }
            self.slow.pop_front();
            let client = &mut self.clients[index];
            if client.state != State::Open {
                continue;
            }
            match self.setting.manner {
                Manner::SlowRead => client.read_a_little(),
                // An event reports a failed write.
                _ => _ = client.send(b"a"),
            }
            self.slow.push_back((due + PAUSE, index));
        }
        None
    }
}

fn slowly(client: &mut Client, manner: Manner, exchange: &Exchange) {
    let request = &exchange.request;
    let sent = match manner {
        // Everything except the empty line that ends the header, plus the start of a growing field.
        Manner::SlowHead => client.send(&request[..request.len() - 2]) && client.send(b"x-slow: "),
        _ => client.send(request),
    };
    if !sent {
        client.end(Some(Fault::Closed));
    }
}
