//! Closed loop: each connection sends its next request as soon as the reply arrives.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::exchange::Kind;
use crate::pool::{Lost, PATIENCE, Pool};
use crate::tally::Tally;

/// Keeps these connections busy for `duration`, then waits for the last replies.
pub(crate) fn run(
    pool: &mut Pool,
    connections: Range<usize>,
    kind: Kind,
    duration: Duration,
) -> Result<Tally, Lost> {
    let mut tally = Tally::default();
    let mut events = Vec::with_capacity(connections.len());
    let begun = Instant::now();
    for index in connections {
        pool.ask(index, kind.first(index), Instant::now())?;
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
                pool.ask(index, answer.kind.next(), answer.read)?;
            }
        }
    }
    tally.end(pool.take_reopened(), begun.elapsed());
    Ok(tally)
}
