//! Open loop: requests start when they are due. A request that finds no free connection waits
//! here, and every latency counts from when the request was due, so that a slow server cannot
//! slow its own load down (coordinated omission).

use std::collections::VecDeque;
use std::time::Instant;

use crate::pool::{Lost, PATIENCE, Pool};
use crate::tally::Tally;
use crate::trace::Arrival;

/// Sends the requests of a trace, then waits for the last replies.
pub(crate) fn run(pool: &mut Pool, trace: &[Arrival]) -> Result<Tally, Lost> {
    run_into(Tally::default(), Instant::now(), pool, trace)
}

/// The same, counted by a given tally from a given begin.
pub(crate) fn run_into(
    mut tally: Tally,
    begun: Instant,
    pool: &mut Pool,
    trace: &[Arrival],
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
            queue.send(pool, begun)?;
        }
        let next = coming.as_slice().first().map(|arrival| arrival.due);
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
                queue.send(pool, begun)?;
            }
        }
    }
    tally.end(pool.take_reopened(), begun.elapsed());
    Ok(tally)
}

/// The connections to one server.
struct Queue<'a> {
    /// The one that has been free for longest is next, so all of them are used.
    free: VecDeque<usize>,
    /// Requests that are due and found none.
    waiting: VecDeque<&'a Arrival>,
}

impl Queue<'_> {
    fn new(connections: impl Iterator<Item = usize>) -> Self {
        Queue { free: connections.collect(), waiting: VecDeque::new() }
    }

    fn send(&mut self, pool: &mut Pool, begun: Instant) -> Result<(), Lost> {
        while !self.waiting.is_empty()
            && let Some(index) = self.free.pop_front()
            && let Some(arrival) = self.waiting.pop_front()
        {
            pool.ask(index, arrival.kind, begun + arrival.due)?;
        }
        Ok(())
    }
}
