//! What services on axum use of a server. Needs the cargo feature `axum`.

mod connect_info;

pub use connect_info::{AddConnectInfo, ConnectInfoLayer};
