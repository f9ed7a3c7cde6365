//! Chaos suite: idle connections keep parking and moving between lanes while clients split requests
//! at random points. No errors, resets, lost or duplicated bytes, or repeated requests are allowed.
//!
//! `make chaos` runs the suite, and variables set the duration and the seed.

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

/// Runs with parking and moving. Without the plain path, connections stay with hyper.
fn moving(enough: Counts) -> impl Iterator<Item = Course> {
    courses(enough).filter(|course| course.plain)
}

/// Allowed memory growth in the second half of a run, in MiB.
const GROWTH: u64 = 32;

fn events() -> u64 {
    number("CHAOS_EVENTS", 10_000)
}

fn number(name: &str, usual: u64) -> u64 {
    env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// All four combinations of plain path and TLS.
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
    // The test starts with a dry run, because the process opens some files only once.
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
        // Server threads may exit slightly later.
        eventually("as few descriptors as before", || descriptors() <= before);
        all.moves += counts.moves;
        all.parkings += counts.parkings;
    }
    assert!(all.moves >= 2 * events && all.parkings >= 2 * events, "{all:?}");
}

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

/// Lanes shut down one by one while connections are moving between them.
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

/// Most lanes are empty when the drain starts, and exit while other lanes are still handing
/// connections to them. This only happens in a drain: the number of lanes is fixed, a panic fails
/// only its request, and the server exits if a lane does.
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
