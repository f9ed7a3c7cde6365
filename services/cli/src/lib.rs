//! The computations of `corelane`: the [capacity model](model).

pub mod model;
