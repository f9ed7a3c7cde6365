//! Connections that rest and move at every exact idle, under clients that cut their requests
//! anywhere: no error, no reset, no lost or doubled byte, no request executed twice.

mod client;
mod ledger;
mod recipe;
mod run;
mod service;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/tls.rs"]
mod tls;
mod wire;

use corelane::Chaos;
use run::{Course, timed};

#[test]
fn first() {
    tracing_subscriber::fmt().with_max_level(tracing::level_filters::LevelFilter::WARN).with_writer(std::io::stderr).init();
    let chaos = Chaos { seed: 1, move_one_in: 2, park_one_in: 2, broken: None };
    let course = Course { seed: 1, lanes: 3, plain: true, tls: false, chaos, answers: 0, moves: 4000, parkings: 4000 };
    for (plain, tls) in [(true, false), (false, false), (true, true), (false, true)] {
        if std::env::var("ONLY").is_ok_and(|only| only != format!("{}{}", u8::from(plain), u8::from(tls))) { continue; }
        let mut course = Course { plain, tls, ..course };
        if let Ok(n) = std::env::var("ANSWERS") { course.answers = n.parse().unwrap(); course.moves = 0; course.parkings = 0; }
        if let Ok(n) = std::env::var("EVENTS") { course.moves = n.parse().unwrap(); course.parkings = n.parse().unwrap(); }
        if let Ok(n) = std::env::var("PARK") { course.chaos.park_one_in = n.parse().unwrap(); }
        if let Ok(n) = std::env::var("MOVE") { course.chaos.move_one_in = n.parse().unwrap(); }
        if let Ok(n) = std::env::var("SEED") { course.seed = n.parse().unwrap(); course.chaos.seed = course.seed; }
        let ((report, counts), took) = timed(|| course.run());
        println!("{course:?}: {} answered, {counts:?} in {took:?}", report.answered);
        report.assert_clean(&format!("{course:?}"));
    }
}
