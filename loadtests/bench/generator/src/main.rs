//! Sends requests for `/hello` and `/work`, or for pages and projects, to a server, and reports the
//! responses as JSON.
//!
//! A measurement has three steps, so that the caller can read the server's counters while no
//! request is in flight. The generator connects, warms the server up and prints `ready`. A line on
//! standard input starts the measured part, and its result is printed when every request is
//! answered. Each further line repeats that part. The connections stay open until standard input
//! ends.

mod exchange;
mod hold;
mod loops;
mod poll;
mod pool;
mod reply;
mod tally;
mod trace;
mod users;
mod visits;

use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use rustix::thread::set_current_timer_slack;

use crate::exchange::{Exchanges, Kind};
use crate::loops::Choice;
use crate::pool::{Lost, Pool};
use crate::tally::Tally;
use crate::trace::{Mix, Plan};

#[derive(Debug, Parser)]
#[command(about = "Sends requests to a server of /hello and /work and reports what came back")]
struct Options {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// Each connection sends its next request as soon as the response arrives.
    Closed {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        period: Period,
        /// Poll without sleeping, so that the server does not pay for waking up the generator.
        #[arg(long)]
        spin: bool,
    },
    /// Requests start when they are due, whether or not earlier ones were answered.
    Open {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        period: Period,
        /// Requests per second.
        #[arg(long)]
        rate: f64,
        /// Share of `/work` requests; the others are `/hello`.
        #[arg(long, default_value_t = 0.1)]
        work_share: f64,
        /// Several sizes of `/work` with their shares, as in 200000=0.6,4000000=0.1.
        #[arg(long, value_name = "OPS=SHARE,...", conflicts_with_all = ["ops", "work_share"])]
        works: Option<Mix>,
        /// Seed of the arrival times.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How to pick a free connection for the next request.
        #[arg(long, value_enum, default_value = "longest-free")]
        next: Choice,
        /// Drop requests still waiting for a connection when the last one is due; for loads beyond
        /// the server's capacity.
        #[arg(long)]
        cut: bool,
    },
    /// Several open loops on the same connections to several servers. Each line on standard input
    /// starts one, as JSON: rate, seconds, work_share, seed. The report lists every response.
    Turns {
        /// Server addresses, separated by commas.
        #[arg(long, value_delimiter = ',', required = true)]
        to: Vec<SocketAddr>,
        /// Keep-alive connections per server.
        #[arg(long, default_value_t = 64)]
        connections: usize,
    },
    /// Users with one project each: a page, a load, a save. Each line on standard input is a part
    /// of the measurement, as JSON: loop (closed, open), kinds, and rounds or rate, seconds, seed.
    Users {
        #[command(flatten)]
        options: users::Options,
    },
    /// Each request has its own connection, and a new one replaces each answered one.
    Visits {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        plan: visits::Plan,
    },
    /// Held connections: idle, slow, or all sending a request at the same time. Each line on
    /// standard input is a step, as JSON: do (open, ask, look), and connections, ask, pace.
    Hold {
        #[command(flatten)]
        options: hold::Options,
    },
}

#[derive(Debug, Args)]
struct Target {
    /// Server address.
    #[arg(long)]
    to: SocketAddr,
    /// Number of keep-alive connections.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Iterations per `/work`; by default, only `/hello` is requested.
    #[arg(long)]
    ops: Option<u64>,
    /// Path to request instead of `/hello`.
    #[arg(long, requires = "file")]
    page: Option<String>,
    /// File with the expected body of the page.
    #[arg(long, requires = "page")]
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Period {
    /// Length of the measured part in seconds.
    #[arg(long)]
    seconds: f64,
    /// Length of the warm-up in seconds.
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
}

fn main() -> ExitCode {
    match run(Options::parse().mode) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load-generator: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mode: Mode) -> Result<(), Lost> {
    // Makes sleeps end on time instead of up to 50 µs late (prctl(2), PR_SET_TIMERSLACK).
    set_current_timer_slack(NonZeroU64::new(1)).map_err(io::Error::from)?;
    match mode {
        Mode::Closed { target, period, spin } => {
            let kind = target.ops.map_or(Kind::Hello, Kind::Work);
            let mut pool = target.opened(target.exchanges(target.ops)?)?;
            pool.spin(spin);
            loops::closed(&mut pool, kind, period.warm_up())?;
            measure(pool, |pool| loops::closed(pool, kind, period.measured()))
        }
        Mode::Open { target, period, rate, work_share, works, seed, next, cut } => {
            let one = target.ops.map(|ops| Mix::one(ops, work_share));
            let works = works.or(one).unwrap_or_default();
            let exchanges = target.exchanges(works.sizes())?;
            let mut pool = target.opened(exchanges)?;
            let plan = Plan { rate, works, targets: 1 };
            let warm_up = plan.trace(period.warm_up(), !seed);
            loops::open(&mut pool, &warm_up, next.seeded(!seed), cut)?;
            let trace = plan.trace(period.measured(), seed);
            measure(pool, |pool| loops::open(pool, &trace, next.seeded(seed), cut))
        }
        Mode::Turns { to, connections } => loops::turns(to, connections),
        Mode::Users { options } => users::run(options),
        Mode::Visits { target, plan } => {
            let kind = target.ops.map_or(Kind::Hello, Kind::Work);
            let exchanges = target.exchanges(target.ops)?;
            measure((), |()| {
                visits::run(target.to, target.connections, kind, exchanges.of(kind), &plan)
            })
        }
        Mode::Hold { options } => hold::run(options),
    }
}

impl Target {
    fn opened(&self, exchanges: Exchanges) -> Result<Pool, Lost> {
        Pool::open(vec![self.to], self.connections, exchanges)
    }

    fn exchanges(&self, works: impl IntoIterator<Item = u64>) -> Result<Exchanges, Lost> {
        let exchanges = Exchanges::new(self.to, works);
        match (&self.page, &self.file) {
            (Some(page), Some(file)) => {
                Ok(exchanges.with_page(self.to, page, std::fs::read(file)?))
            }
            _ => Ok(exchanges),
        }
    }
}

impl Period {
    fn warm_up(&self) -> Duration {
        Duration::from_secs_f64(self.warm_up)
    }

    fn measured(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

fn measure<S>(
    mut state: S,
    mut part: impl FnMut(&mut S) -> Result<Tally, Lost>,
) -> Result<(), Lost> {
    say("\"ready\"")?;
    while told()? {
        let before = tally::own_cpu();
        let result = part(&mut state)?;
        say(&result.json(tally::own_cpu() - before))?;
    }
    Ok(())
}

pub(crate) fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Returns false at the end of the input.
fn told() -> io::Result<bool> {
    Ok(io::stdin().lock().read_line(&mut String::new())? > 0)
}
