//! Operating system access: CPUs and cgroups, sockets and listeners.

pub(crate) mod cpu;
pub(crate) mod listener;
pub(crate) mod listener_group;
pub(crate) mod socket;
