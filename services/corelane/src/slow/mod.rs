//! Slow lanes: each lane has a second thread of low priority on the same CPU, which serves the requests that
//! would hold the lane for long. Which those are, the load table learns (`load::table`).
//!
//! | part | does |
//! |---|---|
//! | [`settings`] | the settings |
//! | [`handover`] | hands the requests of a lane over, and waits for their answers |
//! | [`queue`], [`job`] | what waits for each slow lane, and what an idle one takes of others |
//! | [`thread`], [`priority`] | the thread of a slow lane |
//! | [`serve`], [`current`] | calls the service there, with the request as the current one |
//! | [`body`] | the body of a reply in transit to the lane |
//! | [`counters`], [`yielding`] | the share of the CPU that a slow lane gets |

pub(crate) mod body;
pub(crate) mod counters;
pub(crate) mod current;
pub(crate) mod handover;
pub(crate) mod job;
pub(crate) mod priority;
pub(crate) mod queue;
pub(crate) mod serve;
pub(crate) mod settings;
pub(crate) mod thread;
pub(crate) mod yielding;
