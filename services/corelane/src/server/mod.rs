//! Assembles and runs a server: settings, threads, signals, drain, admin port and metrics.

pub(crate) mod admin;
mod build;
pub(crate) mod builder;
pub(crate) mod control;
pub(crate) mod dependency;
pub(crate) mod exposition;
pub(crate) mod page;
pub(crate) mod run;
pub(crate) mod settings;
pub(crate) mod shared;
pub(crate) mod threads;
