//! Slow lanes: each lane has a second, low-priority thread on the same CPU for requests that would
//! block the lane for long. The load table learns which requests those are (`load::table`).
//!
//! | part | does |
//! |---|---|
//! | [`settings`] | defines the settings |
//! | [`handover`] | hands over the requests of a lane, and waits for the results |
//! | [`queue`], [`job`] | hold the waiting jobs of each slow lane, and let an idle slow lane take jobs from others |
//! | [`thread`], [`priority`] | run the thread of a slow lane |
//! | [`serve`], [`current`] | call the service on that thread, with the request as the current one |
//! | [`body`] | carries the body of a response to the lane |
//! | [`counters`], [`yielding`] | control the share of the CPU that a slow lane receives |

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
