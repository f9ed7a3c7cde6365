//! Requests and the connections that carry them: state, order and limits. Their input and output is
//! in `transport`.

pub(crate) mod blocking;
pub(crate) mod body;
pub(crate) mod body_watch;
pub(crate) mod calls;
pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod current;
pub(crate) mod dispatch;
pub(crate) mod exchanges;
pub(crate) mod finished;
mod grpc;
pub(crate) mod in_flight;
pub(crate) mod lane_state;
pub(crate) mod made;
pub(crate) mod offload;
pub(crate) mod pace;
pub(crate) mod panics;
pub(crate) mod pending;
pub(crate) mod polls;
pub(crate) mod queue;
pub(crate) mod record;
pub(crate) mod refusal;
pub(crate) mod reply;
pub(crate) mod retry_budget;
pub(crate) mod route_limits;
pub(crate) mod routes;
pub(crate) mod send_batch;
pub(crate) mod service;
pub(crate) mod streams;
pub(crate) mod unsent;
pub(crate) mod upload;
