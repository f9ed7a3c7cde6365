//! What `corelane` computes: the [capacity model](model).

pub mod model;
