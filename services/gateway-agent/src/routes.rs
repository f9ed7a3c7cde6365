//! Applies changes of routes to the running Envoy, by files that it watches.
//!
//! A source makes a [`Desired`] state, and the applier makes Envoy's files of it in an order in which no
//! request lacks its cluster.

mod apply;
mod desired;
mod source;
mod status;

pub(crate) use self::apply::Applier;
pub(crate) use self::desired::Desired;
pub(crate) use self::source::Source;
pub(crate) use self::status::Status;
