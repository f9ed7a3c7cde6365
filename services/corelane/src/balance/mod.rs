//! Spreads connections across lanes so that no lane delays another lane's requests.
//!
//! | part | when it acts |
//! |---|---|
//! | [`acceptor`], [`inbox`], [`assignment`] | when a connection arrives: it goes to the least loaded lane, and an idle lane may steal it |
//! | [`wake`] | when a parked connection wakes up |
//! | [`mover`], [`policy`], [`transfers`] | while connections are in use |
//! | [`held`], [`lending`] | while a handler is blocking a lane |
//! | [`load`] | when lanes are compared |
//! | [`moves`], [`mailbox`] | when a connection moves from one lane to another |
//!
//! `docs/lanes.md` describes when each part acts and shows measurements of its effect.

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
