//! The time that replies take to be written.

use super::Connection;
use crate::base::clock::Tick;
use crate::metrics::RequestPhase;
use crate::metrics::kind::KindIndex;
use crate::request::record::RequestRecord;

/// A reply that was made in a turn of the connection and is not written yet.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub(super) kind: KindIndex,
    pub(super) made: Tick,
    pub(super) turn: u32,
    pub(super) request_record: Option<Box<RequestRecord>>,
}

impl Connection {
    /// Records how long a reply took to be written. If the socket accepted it in the same turn, the
    /// time is too short to read the clock for.
    pub(super) fn observe_write(&self, written: Option<Unwritten>) {
        if let Some(Unwritten { kind, made, turn, request_record }) = written {
            let at_once = turn == self.turn.get();
            let took = if at_once { 0 } else { Tick::now().since(made) };
            self.lane.metrics().observe_phase(kind, RequestPhase::Write, took);
            if let Some(request_record) = request_record {
                self.lane.end_request_record(request_record, Some(took));
            }
        }
    }
}
