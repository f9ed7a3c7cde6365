//! A lane: a thread with an event loop that accepts or receives connections. No connection is lost
//! when lanes start or end.
//!
//! | part | task |
//! |---|---|
//! | [`run`], [`parts`] | runs a lane's thread and defines the parts of a lane |
//! | [`accept`] | chooses the source of a lane's connections and admits them |
//! | [`sweep`] | ends overdue connections and requests and parks idle connections |
//! | [`watchdog`] | detects stalled lanes |

pub(crate) mod accept;
pub(crate) mod parts;
pub(crate) mod run;
pub(crate) mod sweep;
pub(crate) mod watchdog;
