//! Lane load: the load table, current activity, and load reports.

pub(crate) mod activity;
pub(crate) mod busy;
pub(crate) mod lane;
pub(crate) mod peers;
pub(crate) mod report;
pub(crate) mod table;
