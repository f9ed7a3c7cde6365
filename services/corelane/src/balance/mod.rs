//! Spreads connections over lanes, so that no lane delays the requests of others.
//!
//! | part | acts |
//! |---|---|
//! | [`acceptor`], [`inbox`], [`assignment`] | when a connection arrives: it goes to the least loaded lane, and an idle lane may steal it |
//! | [`wake`] | when a parked connection wakes |
//! | [`mover`], [`policy`], [`transfers`] | while connections are in use |
//! | [`held`], [`lending`] | while a handler holds a lane |
//! | [`load`] | what lanes are compared by |
//! | [`moves`], [`mailbox`] | the way of a connection from lane to lane |
//!
//! `docs/lanes.md` says which part acts when, and which measurement shows that it is needed.

pub(crate) mod acceptor;
pub(crate) mod assignment;
pub(crate) mod held;
pub(crate) mod inbox;
pub(crate) mod lending;
mod load;
pub(crate) mod mailbox;
pub(crate) mod mover;
pub(crate) mod moves;
mod policy;
pub(crate) mod settings;
mod transfers;
mod wake;
