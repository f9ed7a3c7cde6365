//! Slow lanes: each lane has a second, low-priority thread on the same CPU for requests that would
//! block the lane for a long time. The load table (`load::table`) learns which requests these are.
//!
//! | part | task |
//! |---|---|
//! | [`settings`] | defines the settings |
//! | [`handover`] | hands over a lane's requests and waits for the results |
//! | [`queue`], [`job`] | hold each slow lane's waiting jobs and let an idle slow lane take jobs from other lanes |
//! | [`thread`], [`priority`] | run a slow lane's thread |
//! | [`serve`], [`current`] | call the service on that thread, with the request as the current request |
//! | [`body`] | carries a response body to the lane |
//! | [`counters`], [`yielding`] | control a slow lane's share of the CPU |

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
