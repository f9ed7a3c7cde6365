//! A lane: a thread with an event loop, how connections reach it, and how they move to others. None
//! is lost when lanes start and end.
//!
//! | part | does |
//! |---|---|
//! | [`run`] | the thread of a lane |
//! | [`placement`] | the source of connections of each lane |
//! | [`accept`], [`admission`] | admit connections to a lane, from a listener or an inbox |
//! | [`acceptor`], [`inbox`] | pass connections to the least loaded lane, and let others steal them |
//! | [`back_off`] | keeps a listener from spinning when files run out |
//! | [`moving`] | moves connections between lanes |
//! | [`sweep`] | ends what is overdue, and parks what is idle |
//! | [`watchdog`] | detects stalled lanes |

pub(crate) mod accept;
pub(crate) mod acceptor;
pub(crate) mod inbox;
pub(crate) mod moving;
pub(crate) mod run;
pub(crate) mod sweep;
pub(crate) mod watchdog;
