//! Open loops one after another, each started by a line. Shows what a load balancer does with a new
//! load on existing connections.

use std::io::{self, BufRead};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::exchange::Exchanges;
use crate::loops::{self, Next};
use crate::pool::{Lost, Pool};
use crate::say;
use crate::tally::{Tally, own_cpu};
use crate::trace::{Mix, Plan};

/// One line.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    rate: f64,
    seconds: f64,
    work_share: f64,
    seed: u64,
}

/// Runs a turn for each line until standard input ends.
pub(crate) fn run(to: Vec<SocketAddr>, connections: usize) -> Result<(), Lost> {
    // `/work` without iterations: its cost is set in the server.
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
        let tally = loops::open_into(
            Tally::with_samples(begun),
            begun,
            &mut pool,
            &trace,
            Next::LongestFree,
        )?;
        say(&tally.json(own_cpu() - before))?;
    }
    Ok(())
}
