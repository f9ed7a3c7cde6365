//! Users of a service. Each user has its own connection and project, and requests a page, loads the
//! project and saves it, in this order.
//!
//! Every user first creates and loads its project; this is not measured. Each line on standard
//! input is then a part, as JSON. In a closed loop, users send the next request as soon as they get
//! a response. In an open loop, requests are due at a rate, whether or not earlier ones were
//! answered. Each part has its own connections and ends with a report.

mod document;
mod user;
mod user_loop;

use std::io::{self, BufRead};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fastrand::Rng;
use serde::Deserialize;

use crate::exchange::Kind;
use crate::pool::Lost;
use crate::say;
use crate::tally::own_cpu;
use user::Site;
use user_loop::{Due, UserLoop};

const PAGE: &str = "/static/4k.txt";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Server address.
    #[arg(long)]
    to: SocketAddr,
    /// Number of users.
    #[arg(long, default_value_t = 1000)]
    users: usize,
    /// File behind the page.
    #[arg(long)]
    page: PathBuf,
    /// File with the bearer token for saves.
    #[arg(long)]
    token: PathBuf,
    /// Seed of the projects.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "loop", rename_all = "lowercase", deny_unknown_fields)]
enum Part {
    Closed {
        kinds: Vec<Kind>,
        rounds: usize,
    },
    /// Poisson arrivals. Users take turns, in a different order each round.
    Open {
        kinds: Vec<Kind>,
        rate: f64,
        seconds: f64,
        seed: u64,
    },
}

pub(crate) fn run(options: Options) -> Result<(), Lost> {
    let site = Site {
        to: options.to,
        page: (PAGE.into(), std::fs::read(options.page)?),
        token: std::fs::read_to_string(options.token)?.trim().to_owned(),
    };
    let mut user_loop = UserLoop::new(site, options.users, options.seed)?;
    let made = user_loop.closed(&[Kind::Create, Kind::Load], 1)?;
    let faults = made.faults();
    if !faults.is_empty() {
        return Err(io::Error::other(format!("no projects: {faults:?}")).into());
    }
    say("\"ready\"")?;
    for line in io::stdin().lock().lines() {
        let part: Part = serde_json::from_str(&line?).map_err(io::Error::from)?;
        let before = own_cpu();
        let tally = match part {
            Part::Closed { kinds, rounds } => user_loop.closed(&kinds, rounds)?,
            Part::Open { kinds, rate, seconds, seed } => {
                user_loop.open(&arrivals(options.users, &kinds, rate, seconds, seed))?
            }
        };
        say(&tally.json(own_cpu() - before))?;
    }
    Ok(())
}

/// Times and users of requests. Users start at different points of their round, so that pages,
/// loads and saves are mixed from the start.
fn arrivals(users: usize, kinds: &[Kind], rate: f64, seconds: f64, seed: u64) -> Vec<Due> {
    let mut random = Rng::with_seed(seed);
    let mut order: Vec<usize> = (0..users).collect();
    let (mut at, mut found) = (0.0, Vec::new());
    for number in 0.. {
        if number % users == 0 {
            random.shuffle(&mut order);
        }
        // Inverse of the exponential distribution; f64() is below 1.
        at += -(1.0 - random.f64()).ln() / rate;
        if at >= seconds {
            break;
        }
        let user = order[number % users];
        let kind = kinds[(user + number / users) % kinds.len()];
        found.push(Due { at: Duration::from_secs_f64(at), user, kind });
    }
    found
}
