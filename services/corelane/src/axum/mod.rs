//! Layers for axum.

mod connect_info;
mod routes;

pub use connect_info::{AddConnectInfo, ConnectInfoLayer};
pub use routes::{LearnRoutes, RouteLearner};
