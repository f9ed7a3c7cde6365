//! Connections that rest and move at any exact idle, under clients that cut their requests
//! anywhere: no error, no reset, no lost or doubled byte, no request executed twice.
//!
//! `cargo test -p corelane --features chaos --test chaos`, or `make chaos` for as long as one likes:
//!
//! | variable | |
//! |---|---|
//! | `CHAOS_EVENTS` | moves and parkings of all courses together, each; 100,000 |
//! | `CHAOS_SEED` | what clients do, and which idle connections leave; 1 |

mod client;
mod controls;
mod ledger;
mod recipe;
mod run;
mod service;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/tls.rs"]
mod tls;
mod wire;

use std::env;

use client::Habit;
use corelane::Chaos;
use run::{Counts, Course, alone, descriptors, eventually, resident, timed};

/// How much more memory a course may have at its end than it had in its middle, in MiB.
const GROWTH: u64 = 32;

fn number(name: &str, usual: u64) -> u64 {
    env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// With the short way of plain requests and without, over TLS and not.
fn courses(events: u64, answers: u64) -> impl Iterator<Item = Course> {
    let seed = number("CHAOS_SEED", 1);
    let chaos = Chaos { seed, move_one_in: 2, park_one_in: 3, broken: None };
    let enough = Counts { moves: events, parkings: events, answers };
    let kinds = [(true, false), (false, false), (true, true), (false, true)];
    kinds.into_iter().map(move |(plain, tls)| Course {
        lanes: 3,
        plain,
        tls,
        habit: Habit::Mixed,
        patience: 3 * support::PATIENCE,
        chaos,
        enough,
    })
}

#[test]
fn nothing_is_lost_or_done_twice_while_connections_rest_and_move() {
    let _alone = alone();
    let events = number("CHAOS_EVENTS", 100_000).div_ceil(4);
    let mut all = Counts::default();
    // What a process opens once is open from here on.
    courses(0, 0).for_each(|course| course.start().finish().assert_clean("a first server"));
    for course in courses(events, 0) {
        let before = descriptors();
        let half = Counts { moves: events / 2, parkings: events / 2, answers: 0 };
        let race = Course { enough: half, ..course }.start();
        race.wait();
        let middle = resident();
        let race = race.until(course.enough);
        let (counts, took) = timed(|| race.wait());
        let grown = resident().saturating_sub(middle);
        println!("{course:?}: {counts:?}, the last half in {took:.0?}, {grown} MiB more");
        race.finish().assert_clean(&format!("{course:?}"));
        assert!(grown < GROWTH, "{course:?}: {grown} MiB more");
        // A thread of the server may end behind it.
        eventually("as few descriptors as before", || descriptors() <= before);
        all.moves += counts.moves;
        all.parkings += counts.parkings;
    }
    assert!(all.moves >= 4 * events && all.parkings >= 4 * events, "{all:?}");
}

/// Connections are on their way between lanes, and lanes end one after the other.
#[test]
fn a_drain_in_the_middle_loses_no_request_that_was_sent() {
    let _alone = alone();
    for round in 0..2 {
        for course in courses(0, 300 + 200 * round) {
            // The reply that ends a connection may be lost with requests behind it that nobody reads.
            let race = Course { habit: Habit::Single, ..course }.start();
            race.wait();
            race.drain().assert_clean(&format!("{course:?}"));
        }
    }
}
