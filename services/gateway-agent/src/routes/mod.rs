//! Applies route changes to the running Envoy through files that it watches.
//!
//! A source provides a [`Desired`] state. The applier writes Envoy's files from it, in an order
//! that gives every request a cluster.

mod apply;
mod certificates;
mod desired;
mod source;
mod status;

pub(crate) use self::apply::Applier;
#[cfg(test)]
pub(crate) use self::certificates::tests::{authority, certificate};
pub(crate) use self::certificates::{Certificate, Certificates, path as certificate_path};
pub(crate) use self::desired::{Desired, Update};
pub(crate) use self::source::Source;
pub(crate) use self::status::Status;
