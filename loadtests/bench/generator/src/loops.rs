//! Loops that send requests on the connections of a pool.
//!
//! In a closed loop, each connection sends its next request as soon as the response arrives. In an
//! open loop, requests start when they are due, or wait here for a free connection. Latency is
//! measured from the time when a request was due, so that a slow server does not reduce its own
//! load (coordinated omission).

use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use fastrand::Rng;
use serde::Deserialize;

use crate::exchange::{Exchanges, Kind};
use crate::pool::{Lost, PATIENCE, Pool};
use crate::say;
use crate::tally::{Tally, own_cpu};
use crate::trace::{Arrival, Mix, Plan};

pub(crate) fn closed(pool: &mut Pool, kind: Kind, duration: Duration) -> Result<Tally, Lost> {
    let mut tally = Tally::default();
    let mut events = Vec::with_capacity(pool.len());
    let begun = Instant::now();
    for index in 0..pool.len() {
        pool.ask(index, kind, Instant::now())?;
    }
    while pool.in_flight() > 0 {
        pool.wait(&mut events, PATIENCE)?;
        if events.is_empty() {
            tally.give_up(pool)?;
        }
        for event in &events {
            let index = event.data.u64() as usize;
            let Some(answer) = pool.receive(index)? else { continue };
            tally.add(&answer);
            if answer.read - begun < duration {
                pool.ask(index, answer.kind, answer.read)?;
            }
        }
    }
    tally.end(pool.take_reopened(), begun.elapsed());
    Ok(tally)
}

/// How to pick a free connection for the next request.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Choice {
    /// The connection that has been free the longest. If connections are spread across lanes, this
    /// loads lanes more evenly than a random choice.
    LongestFree,
    /// A random connection, like many independent clients.
    Any,
}

impl Choice {
    pub(crate) fn seeded(self, seed: u64) -> Next {
        match self {
            Choice::LongestFree => Next::LongestFree,
            Choice::Any => Next::Any(Rng::with_seed(seed)),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Next {
    LongestFree,
    Any(Rng),
}

/// Sends the requests of a trace, then waits for the last responses. With `cut`, requests still
/// waiting for a connection when the last one is due are not sent.
pub(crate) fn open(
    pool: &mut Pool,
    trace: &[Arrival],
    next: Next,
    cut: bool,
) -> Result<Tally, Lost> {
    open_into(Tally::default(), Instant::now(), pool, trace, next, cut)
}

fn open_into(
    mut tally: Tally,
    begun: Instant,
    pool: &mut Pool,
    trace: &[Arrival],
    mut next_free: Next,
    cut: bool,
) -> Result<Tally, Lost> {
    let targets = pool.targets();
    let mut events = Vec::with_capacity(pool.len());
    let mut queues: Vec<Queue<'_>> =
        (0..targets).map(|target| Queue::new((target..pool.len()).step_by(targets))).collect();
    let mut coming = trace.iter();
    loop {
        let now = begun.elapsed();
        while let Some(arrival) = coming.as_slice().first()
            && arrival.due <= now
        {
            coming.next();
            let queue = &mut queues[arrival.target];
            tally.start(now - arrival.due, queue.free.is_empty());
            queue.waiting.push_back(arrival);
            queue.send(pool, begun, &mut next_free)?;
        }
        let next = coming.as_slice().first().map(|arrival| arrival.due);
        if cut && next.is_none() {
            tally.cut(queues.iter_mut().map(|queue| queue.waiting.drain(..).len()).sum());
        }
        if next.is_none() && pool.in_flight() == 0 {
            break;
        }
        let timeout = next.map_or(PATIENCE, |due| due.saturating_sub(begun.elapsed()));
        pool.wait(&mut events, timeout)?;
        if events.is_empty() && next.is_none() {
            tally.give_up(pool)?;
            tally.unsent(queues.iter().map(|queue| queue.waiting.len()).sum());
            break;
        }
        for event in &events {
            let index = event.data.u64() as usize;
            if let Some(answer) = pool.receive(index)? {
                tally.add(&answer);
                let queue = &mut queues[index % targets];
                queue.free.push_back(index);
                queue.send(pool, begun, &mut next_free)?;
            }
        }
    }
    tally.end(pool.take_reopened(), begun.elapsed());
    Ok(tally)
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    rate: f64,
    seconds: f64,
    work_share: f64,
    seed: u64,
}

/// Runs open loops one after another on the same connections; a line on standard input starts each
/// one. Shows how a load balancer spreads a new load across existing connections.
pub(crate) fn turns(to: Vec<SocketAddr>, connections: usize) -> Result<(), Lost> {
    // `/work` without iterations: the server sets its cost.
    let exchanges = Exchanges::new(to[0], [0]);
    let targets = to.len();
    let mut pool = Pool::open(to, connections * targets, exchanges)?;
    say("\"ready\"")?;
    for line in io::stdin().lock().lines() {
        let turn: Turn = serde_json::from_str(&line?).map_err(io::Error::from)?;
        let Turn { rate, seconds, work_share, seed } = turn;
        let works = Mix::one(0, work_share);
        let plan = Plan { rate, works, targets };
        let trace = plan.trace(Duration::from_secs_f64(seconds), seed);
        let (before, begun) = (own_cpu(), Instant::now());
        let tally = open_into(
            Tally::with_samples(begun),
            begun,
            &mut pool,
            &trace,
            Next::LongestFree,
            false,
        )?;
        say(&tally.json(own_cpu() - before))?;
    }
    Ok(())
}

struct Queue<'a> {
    free: VecDeque<usize>,
    waiting: VecDeque<&'a Arrival>,
}

impl Queue<'_> {
    fn new(connections: impl Iterator<Item = usize>) -> Self {
        Queue { free: connections.collect(), waiting: VecDeque::new() }
    }

    fn send(&mut self, pool: &mut Pool, begun: Instant, next: &mut Next) -> Result<(), Lost> {
        while !self.waiting.is_empty()
            && let Some(index) = next.of(&mut self.free)
            && let Some(arrival) = self.waiting.pop_front()
        {
            pool.ask(index, arrival.kind, begun + arrival.due)?;
        }
        Ok(())
    }
}

impl Next {
    fn of(&mut self, free: &mut VecDeque<usize>) -> Option<usize> {
        match self {
            Next::LongestFree => free.pop_front(),
            Next::Any(_) if free.is_empty() => None,
            Next::Any(random) => free.swap_remove_front(random.usize(..free.len())),
        }
    }
}
