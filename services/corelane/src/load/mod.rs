//! The load of each lane: the load table, what the lane does now, and the reports of it.

pub(crate) mod activity;
pub(crate) mod busy;
pub(crate) mod lane;
pub(crate) mod peers;
pub(crate) mod report;
pub(crate) mod table;
