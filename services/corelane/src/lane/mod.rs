//! A lane: a thread with an event loop, how connections reach it, and how they move to others. None
//! is lost when lanes start and end.
//!
//! | part | does |
//! |---|---|
//! | [`run`], [`parts`] | the thread of a lane, and what it is made of |
//! | [`accept`] | the source of a lane's connections, and their admission |
//! | [`acceptor`], [`inbox`] | pass connections to the least loaded lane, and let others steal them |
//! | [`moving`] | moves connections between lanes |
//! | [`held`] | lends the connections of a lane that a handler holds |
//! | [`sweep`] | ends what is overdue, and parks what is idle |
//! | [`watchdog`] | detects stalled lanes |

pub(crate) mod accept;
pub(crate) mod acceptor;
pub(crate) mod held;
pub(crate) mod inbox;
pub(crate) mod moving;
pub(crate) mod parts;
pub(crate) mod run;
pub(crate) mod sweep;
pub(crate) mod watchdog;
