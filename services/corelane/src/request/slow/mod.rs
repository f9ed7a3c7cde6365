//! Requests between a lane and its slow lane: a [`job`], the [`queue`] that it waits in, the [`answer`] and
//! its [`body`].

pub(crate) mod body;
pub(crate) mod job;
pub(crate) mod queue;
