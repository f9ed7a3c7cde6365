//! Integration tests over real sockets, with servers in this process.

mod support;

mod accept;
mod addresses;
mod admin;
mod admin_extensions;
mod batches;
mod disconnect;
mod drain;
mod examples;
mod handlers;
mod limits;
mod listeners;
mod load_report;
mod moving;
mod parking;
mod pipelining;
mod placement;
mod plain;
mod repin;
mod request_records;
mod requests;
mod rfc;
mod routes;
mod scheduling;
mod slow;
mod stalls;
mod start;
mod tls;
mod tls_clients;
mod tls_reload;
mod upgrades;
