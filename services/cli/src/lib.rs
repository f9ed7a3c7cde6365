//! The computations behind the `corelane` command: the [capacity model](model).

pub mod model;
