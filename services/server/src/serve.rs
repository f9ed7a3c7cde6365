//! Runs the service: creates its parts, serves, and ends them in this order.

use std::process::ExitCode;
use std::sync::Arc;

use corelane::{Builder, Drain, Drained, Error, Limits, Server, Timeouts};
use corelane_service::config::ConfigErrors;
use corelane_service::process;
use http::HeaderValue;

use crate::app::{App, Common, ROUTES};
use crate::auth::{Auth, AuthCollector};
use crate::config::{Config, PROGRAM};
use crate::faults::{self, FaultCollector, Faults};
use crate::logging;
use crate::projects::database::Database;
use crate::projects::metrics::Metrics;
use crate::telemetry;

/// Serves until drained. Exit code 0 after a clean drain, 1 if something was cut or failed.
pub(crate) fn serve(config: Config) -> Result<ExitCode, ConfigErrors> {
    let builder = builder(&config)?;
    let auth = Arc::new(config.auth()?);
    let faults = config.faults.then(|| Arc::new(Faults::new(&ROUTES)));
    let (_flush_at_end, log_level) = match logging::start(&config.log_level, config.log_format) {
        Ok(started) => started,
        Err(error) => return Ok(not_started(&error)),
    };
    let replica = config.replica_name();
    let builder = named(builder, &replica)
        .admin_route(logging::LEVEL_PATH, move |request| log_level.answer(&request));
    let builder = with_drills(builder, faults.as_ref());
    let (builder, _sent_at_end) = match telemetry::start(builder, &config, &replica) {
        Ok(started) => started,
        Err(error) => return Ok(not_started(&error)),
    };
    let metrics = Arc::<Metrics>::default();
    let builder = with_tokens(builder, &auth).collector(Arc::clone(&metrics));
    let server = match builder.build() {
        Ok(server) => server,
        Err(error) => return Ok(failed(&error)),
    };
    let database = match Database::open(&config, &metrics, &server.handle()) {
        Ok(database) => database.map(Arc::new),
        Err(error) => return Ok(not_started(&error)),
    };
    let common = Common { auth, faults, database: database.clone() };
    let served = server.try_serve(App::factory(config, replica, common));
    // The lanes have ended and released their references.
    if let Some(database) = database.and_then(Arc::into_inner) {
        database.close();
    }
    Ok(match served {
        Ok(Drained { cut: 0 }) => ExitCode::SUCCESS,
        Ok(Drained { .. }) => ExitCode::FAILURE,
        Err(error) => failed(&error),
    })
}

pub(crate) fn builder(config: &Config) -> Result<Builder, ConfigErrors> {
    Database::check(config)?;
    let listening = config.listen.iter().cloned().fold(Server::builder(), |builder, place| {
        builder.listen(place.proxy_protocol(config.proxy_protocol))
    });
    let builder = listening
        .admin(config.admin_listen)
        .lanes(config.lanes)
        .pin(config.pin)
        .placement(config.placement)
        .steering(config.steering)
        .backlog(config.backlog as u32)
        .park_after(config.park_after)
        .moving(config.moving)
        .limits(Limits {
            connections: config.limits_connections as usize,
            connections_per_address: config.limits_connections_per_address.map(|n| n as usize),
            connection_requests: config.limits_connection_requests,
            slots: config.limits_slots as usize,
            queue: config.limits_queue as usize,
            blocking_threads: config.limits_blocking_threads as usize,
            blocking_queue: config.limits_blocking_queue as usize,
            headers: config.limits_headers as usize,
            header_bytes: config.limits_header_bytes as usize,
            uri_bytes: config.limits_uri_bytes as usize,
            body_bytes: config.limits_body_bytes,
            unsent_bytes: config.limits_unsent_bytes,
            unsent_connection_bytes: config.limits_unsent_connection_bytes as usize,
            send_rate: config.limits_send_rate,
            receive_rate: config.limits_receive_rate,
        })
        .timeouts(Timeouts {
            header: config.timeouts_header,
            body: config.timeouts_body,
            request: config.timeouts_request,
            write: config.timeouts_write,
            slow: config.timeouts_slow,
            connection_age: config.timeouts_connection_age,
            idle: config.timeouts_idle,
            stall: config.timeouts_stall,
        })
        .drain(Drain {
            settle: config.drain_settle,
            deadline: config.drain_deadline,
            report: config.drain_report,
        })
        .load_reports(config.load_reports)
        .request_ids(config.request_ids)
        .plain_requests(config.plain_requests)
        .trusted_proxies(config.trusted_proxies.iter().cloned())
        .forwarded_header(config.forwarded_header)
        .client_addresses(config.log_client)
        .traces(telemetry::traces(config))
        .routes(ROUTES)
        .learnt_routes(0);
    Ok(match config.tls()? {
        Some(tls) => builder.tls(tls),
        None => builder,
    })
}

fn named(builder: Builder, replica: &str) -> Builder {
    // The schema requires printable ASCII, which is a valid header value.
    match HeaderValue::from_str(replica) {
        Ok(name) => builder.replica(name),
        Err(_) => builder,
    }
}

/// The page always exists, because it shows how to enable faults.
fn with_drills(builder: Builder, faults: Option<&Arc<Faults>>) -> Builder {
    let builder = builder.admin_route("/faults", faults::handler(faults.cloned()));
    match faults {
        Some(faults) => builder.collector(FaultCollector(Arc::clone(faults))),
        None => builder,
    }
}

fn with_tokens(builder: Builder, auth: &Arc<Auth>) -> Builder {
    if let Err(error) = auth.watch() {
        tracing::error!(%error, "tokens are not reloaded: cannot start a thread");
    }
    builder.collector(AuthCollector(Arc::clone(auth)))
}

/// Says why a part of the service could not start.
fn not_started(reason: &dyn std::fmt::Display) -> ExitCode {
    report(reason);
    ExitCode::FAILURE
}

/// Says why the server could not run, with the exit code for a wrong setting if it is one.
pub(crate) fn failed(error: &Error) -> ExitCode {
    report(error);
    if error.is_setting() { process::usage() } else { ExitCode::FAILURE }
}

pub(crate) fn report(error: &dyn std::fmt::Display) {
    process::report(PROGRAM.name, error);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_without_its_files_ends_the_start() {
        let mut config = Config::parse(&Default::default()).expect("defaults parse");
        config.static_root = Some("/no/such/folder".into());
        let auth = Arc::new(config.auth().expect("no tokens"));
        let common = Common { auth, faults: None, database: None };
        let server = Server::builder().bind("127.0.0.1:0".parse().expect("an address"));
        let server = server.signals(false).build().expect("it binds");
        let served = server.try_serve(App::factory(config, String::new(), common));
        let error = served.expect_err("no lane has its files");
        let text = error.to_string();
        assert!(text.contains("static.root: cannot open /no/such/folder"), "{text}");
        assert_eq!(failed(&error), ExitCode::FAILURE);
    }

    #[test]
    fn defaults_are_those_of_the_library() {
        let config = Config::parse(&Default::default()).expect("defaults parse");
        let ours = builder(&config).expect("defaults fit together");
        let library = Server::builder().bind("127.0.0.1:8080".parse().expect("an address"));
        let library = library.admin(config.admin_listen).routes(ROUTES).learnt_routes(0);
        // These two cost something, which a library leaves to its user.
        let library = library.request_ids(true).traces(corelane::Traces::PassOn);
        assert_eq!(format!("{ours:#?}"), format!("{library:#?}"));
        assert_eq!(config.tls_reload, corelane::Tls::new("", "").reload);
    }
}
