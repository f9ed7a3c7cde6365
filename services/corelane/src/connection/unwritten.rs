//! The time that replies take to be written.

use super::Connection;
use crate::clock::Tick;
use crate::load_table::KindIndex;
use crate::metrics::Phase;
use crate::trail::Trail;

/// A reply that was made in a turn of the connection and is not written yet.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub(super) kind: KindIndex,
    pub(super) made: Tick,
    pub(super) turn: u32,
    pub(super) trail: Option<Box<Trail>>,
}

impl Connection {
    /// Records how long a reply took to be written. If the socket accepted it in the same turn, the
    /// time is too short to read the clock for.
    pub(super) fn observe_write(&self, written: Option<Unwritten>) {
        if let Some(Unwritten { kind, made, turn, trail }) = written {
            let at_once = turn == self.turn.get();
            let took = if at_once { 0 } else { Tick::now().since(made) };
            self.lane.metrics().observe_phase(kind, Phase::Write, took);
            if let Some(trail) = trail {
                self.lane.end_trail(trail, Some(took));
            }
        }
    }
}
