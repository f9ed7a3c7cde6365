//! A lane: a thread with an event loop, and how connections reach it. None is lost when lanes start and
//! end.
//!
//! | part | does |
//! |---|---|
//! | [`run`], [`parts`] | the thread of a lane, and what it is made of |
//! | [`accept`] | the source of a lane's connections, and their admission |
//! | [`sweep`] | ends what is overdue, and parks what is idle |
//! | [`watchdog`] | detects stalled lanes |

pub(crate) mod accept;
pub(crate) mod parts;
pub(crate) mod run;
pub(crate) mod sweep;
pub(crate) mod watchdog;
