//! Requests that a slow lane serves.
//!
//! A lane hands a request over as a [`job`]; its slow lane takes it from a [`queue`], [`run`]s the
//! handler and sends an [`answer`] back, with a [`body`] that may still be in progress. The lane writes
//! the reply and all counters. The handler sees its request through a [`guest`].

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod guest;
pub(crate) mod job;
pub(crate) mod queue;
pub(crate) mod run;
