//! Mutation tests of the suite: breaking any rule must make it fail.

use std::time::Duration;

use corelane::{Chaos, Rule};

use crate::run::{Counts, Course, MANY, Race, alone};
use crate::script::Habit;
use crate::support::PATIENCE;

/// Number of responses after which a fault counts as missed if it has not been detected.
const ANSWERS: u64 = 40_000;

fn start(broken: Option<Rule>, habit: Habit, move_one_in: u64, answers: u64) -> Race {
    let chaos = Chaos { seed: 1, move_one_in, park_one_in: 0, lend: false, broken };
    let enough = Counts { answers, ..Counts::default() };
    // The timeout is short if bytes are lost on purpose, and otherwise long enough for a busy
    // machine.
    let patience = if broken.is_some() { Duration::from_secs(5) } else { PATIENCE };
    let (lanes, connections) = (2, MANY);
    Course { lanes, connections, plain: true, tls: false, habit, patience, chaos, enough }.start()
}

/// Runs until the first fault.
fn assert_found(rule: Rule, habit: Habit) {
    let race = start(Some(rule), habit, 2, ANSWERS);
    let counts = race.wait();
    let found = race.faults();
    race.abandon();
    println!("{rule:?}: {found} faults, {counts:?}");
    assert!(found > 0, "{rule:?} is broken, and nothing is found: {counts:?}");
}

#[test]
fn nothing_is_found_while_every_rule_is_kept() {
    let _alone = alone();
    for habit in [Habit::Usual, Habit::Late, Habit::Long] {
        let race = start(None, habit, 2, 2000);
        race.wait();
        race.finish().assert_clean(&format!("{habit:?}"));
    }
}

#[test]
fn what_was_read_of_a_head_is_missed() {
    let _alone = alone();
    assert_found(Rule::Unread, Habit::Usual);
}

/// A newly registered connection is not readable in its first poll, so without this rule it would
/// move on every time.
#[test]
fn a_connection_that_need_not_serve_moves_for_ever() {
    let _alone = alone();
    let race = start(Some(Rule::ServedHere), Habit::Single, 1, ANSWERS);
    let counts = race.wait_until(|counts| counts.moves > 20_000);
    race.abandon();
    assert!(counts.moves > 20 * counts.answers, "{counts:?}");
}
