//! Layers for axum.

mod routes;

pub use routes::{LearnRoutes, RouteLearner};
