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
    let mut tally = Tally::default();
    let mut events = Vec::with_capacity(pool.len());
    // The connection that has been free for longest is next, so all of them are used.
    let mut free: VecDeque<usize> = (0..pool.len()).collect();
    let mut coming = trace.iter();
    let mut waiting: VecDeque<&Arrival> = VecDeque::new();
    let begun = Instant::now();
    loop {
        let now = begun.elapsed();
        while let Some(arrival) = coming.as_slice().first()
            && arrival.due <= now
        {
            coming.next();
            tally.start(now - arrival.due, free.len() <= waiting.len());
            waiting.push_back(arrival);
        }
        while !waiting.is_empty()
            && let Some(index) = free.pop_front()
            && let Some(arrival) = waiting.pop_front()
        {
            pool.ask(index, arrival.kind, begun + arrival.due)?;
        }
        let next = coming.as_slice().first().map(|arrival| arrival.due);
        if next.is_none() && pool.in_flight() == 0 {
            break;
        }
        let timeout = next.map_or(PATIENCE, |due| due.saturating_sub(begun.elapsed()));
        pool.wait(&mut events, timeout)?;
        if events.is_empty() && next.is_none() {
            tally.give_up(pool)?;
            tally.unsent(waiting.len());
            break;
        }
        for event in &events {
            let index = event.data.u64() as usize;
            if let Some(answer) = pool.receive(index)? {
                tally.add(&answer);
                free.push_back(index);
            }
        }
    }
    tally.end(pool, begun.elapsed());
    Ok(tally)
}
