//! Connections that park and move whenever they are idle, under clients that cut their requests at
//! any place. There must be no error, no reset, no lost or doubled byte, and no request that is
//! executed twice.
//!
//! Run it with `make chaos`, which has variables for the length and the seed.

mod client;
mod controls;
mod ledger;
mod recipe;
mod run;
mod script;
mod service;
#[path = "../it/support/mod.rs"]
mod support;
mod wire;

use std::env;

use corelane::Chaos;
use run::{Counts, Course, MANY, alone, descriptors, eventually, resident, timed};
use script::Habit;

/// The courses in which connections park and move. Without the plain path, connections stay with
/// hyper.
fn moving(enough: Counts) -> impl Iterator<Item = Course> {
    courses(enough).filter(|course| course.plain)
}

/// Maximum growth of memory from the middle of a course to its end, in MiB.
const GROWTH: u64 = 32;

/// Number of moves and of parkings in a run.
fn events() -> u64 {
    number("CHAOS_EVENTS", 10_000)
}

fn number(name: &str, usual: u64) -> u64 {
    env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// Courses with and without the plain path, with and without TLS.
fn courses(enough: Counts) -> impl Iterator<Item = Course> {
    let seed = number("CHAOS_SEED", 1);
    let chaos = Chaos { seed, move_one_in: 2, park_one_in: 3, lend: false, broken: None };
    let kinds = [(true, false), (false, false), (true, true), (false, true)];
    kinds.into_iter().map(move |(plain, tls)| Course {
        lanes: 3,
        connections: MANY,
        plain,
        tls,
        habit: if plain { Habit::Usual } else { Habit::Mixed },
        patience: support::PATIENCE,
        chaos,
        enough,
    })
}

#[test]
fn nothing_is_lost_or_done_twice_while_connections_rest_and_move() {
    let _alone = alone();
    let events = events().div_ceil(2);
    let mut all = Counts::default();
    // Runs nothing, so that files which a process opens once are open from now on.
    let nothing = moving(Counts::default());
    nothing.for_each(|course| course.start().finish().assert_clean("a first server"));
    for course in moving(Counts { moves: events, parkings: events, ..Counts::default() }) {
        let before = descriptors();
        let (moves, parkings) = (events / 2, events / 2);
        let half = Counts { moves, parkings, ..Counts::default() };
        let race = Course { enough: half, ..course }.start();
        race.wait();
        let middle = resident();
        let race = race.until(course.enough);
        let (counts, took) = timed(|| race.wait());
        let grown = resident().saturating_sub(middle);
        println!("{course:?}: {counts:?}, the last half in {took:.0?}, {grown} MiB more");
        race.finish().assert_clean(&format!("{course:?}"));
        assert!(grown < GROWTH, "{course:?}: {grown} MiB more");
        // A thread of the server may end a little later.
        eventually("as few descriptors as before", || descriptors() <= before);
        all.moves += counts.moves;
        all.parkings += counts.parkings;
    }
    assert!(all.moves >= 2 * events && all.parkings >= 2 * events, "{all:?}");
}

/// Every lane borrows connections of the other lanes, which serve them in the meantime.
#[test]
fn nothing_is_lost_or_done_twice_while_lanes_lend_their_connections() {
    let _alone = alone();
    let lent = events().div_ceil(10);
    for course in moving(Counts { lent, ..Counts::default() }).filter(|course| !course.tls) {
        for (move_one_in, park_one_in) in [(0, 0), (2, 3)] {
            let chaos = Chaos { move_one_in, park_one_in, lend: true, ..course.chaos };
            let race = Course { chaos, ..course }.start();
            let counts = race.wait();
            println!("{chaos:?}: {counts:?}");
            race.finish().assert_clean(&format!("{chaos:?}"));
        }
    }
}

/// Each course has a different server and different clients.
#[test]
fn nothing_is_lost_of_old_requests_in_pipelines() {
    let _alone = alone();
    let servers = events().div_ceil(50_000);
    for server in 0..servers {
        for course in courses(Counts { answers: 2000, ..Counts::default() }) {
            let seed = course.chaos.seed.wrapping_mul(servers).wrapping_add(server);
            let chaos = Chaos { seed, ..course.chaos };
            let race = Course { habit: Habit::Old, chaos, ..course }.start();
            race.wait();
            race.finish().assert_clean(&format!("{course:?}, seed {seed}"));
        }
    }
}

/// Connections are in transit between lanes while lanes end one after another.
#[test]
fn a_drain_in_the_middle_loses_no_request_that_was_sent() {
    let _alone = alone();
    for answers in [300, 500] {
        for course in courses(Counts { answers, ..Counts::default() }) {
            let chaos = Chaos { lend: answers == 500, ..course.chaos };
            let race = Course { chaos, ..course }.start();
            race.wait();
            race.drain().assert_clean(&format!("{course:?}"));
        }
    }
}

/// Most lanes are empty when the drain begins, and end while connections are still in transit to
/// them from other lanes. Only a drain ends a lane while others continue: their number is fixed, a
/// panic of a handler affects only its request, and the server ends if a lane ends by itself.
#[test]
fn lanes_that_end_first_lose_nothing_of_the_others() {
    let _alone = alone();
    for answers in 20..24 {
        for course in moving(Counts { answers, ..Counts::default() }) {
            let chaos = Chaos { seed: answers, move_one_in: 1, ..course.chaos };
            let race = Course { lanes: 6, connections: 4, chaos, ..course }.start();
            race.wait();
            race.drain().assert_clean(&format!("{course:?}, after {answers} answers"));
        }
    }
}
