//! The reference service of Corelane, with every workload that the platform is measured with.

mod app;
mod auth;
mod config;
mod docs;
mod faults;
mod files;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handlers;
mod logging;
mod memory;
mod openapi;
mod per_lane;
mod projects;
mod serve;
mod telemetry;

use std::process::ExitCode;

use corelane_service::config::{ConfigErrors, Invocation};
use corelane_service::process;

use crate::config::{Config, PROGRAM};
use crate::serve::{builder, failed, report};

/// Runs the program with its command line, environment and file.
pub fn main() -> ExitCode {
    // The allocator does not request huge pages (its feature `no_thp`). If the kernel provides them
    // anyway, each of its blocks counts as used in full. Fails harmlessly on kernels without them.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    match run() {
        Ok(code) => code,
        Err(errors) => {
            report(&errors);
            process::usage()
        }
    }
}

fn run() -> Result<ExitCode, ConfigErrors> {
    match PROGRAM.read(std::env::args_os(), std::env::vars_os())? {
        Invocation::Print(text) => process::print(&text),
        Invocation::Check(settings) => {
            let config = Config::parse(&settings)?;
            let tls = config.tls()?;
            config.auth()?;
            let valid = builder(&config)?.validate();
            if let Err(error) = valid.and_then(|()| tls.map_or(Ok(()), |tls| tls.check())) {
                return Ok(failed(&error));
            }
            process::print(&settings.describe(PROGRAM.keys));
        }
        Invocation::Run(settings) => return serve::serve(Config::parse(&settings)?),
    }
    Ok(ExitCode::SUCCESS)
}

fn failed(error: &Error) -> ExitCode {
    report(error);
    if error.is_setting() { process::usage() } else { ExitCode::FAILURE }
}

fn builder(config: &Config) -> Result<Builder, ConfigErrors> {
    config.postgres()?;
    let builder = Server::builder()
        .bind(config.listen)
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
            connection_requests: config.limits_connection_requests,
            slots: config.limits_slots as usize,
            queue: config.limits_queue as usize,
            blocking_threads: config.limits_blocking_threads as usize,
            blocking_queue: config.limits_blocking_queue as usize,
            headers: config.limits_headers as usize,
            header_bytes: config.limits_header_bytes as usize,
            uri_bytes: config.limits_uri_bytes as usize,
            body_bytes: config.limits_body_bytes,
        })
        .timeouts(Timeouts {
            header: config.timeouts_header,
            body: config.timeouts_body,
            request: config.timeouts_request,
            write: config.timeouts_write,
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
        .traces(telemetry::traces(config))
        .routes(ROUTES);
    Ok(match config.tls()? {
        Some(tls) => builder.tls(tls),
        None => builder,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_library() {
        let config = Config::parse(&Default::default()).expect("defaults parse");
        let ours = builder(&config).expect("defaults fit together");
        let library = Server::builder().admin(config.admin_listen).routes(ROUTES);
        // Both have a cost, so the library leaves them off by default.
        let library = library.request_ids(true).traces(corelane::Traces::PassOn);
        assert_eq!(format!("{ours:#?}"), format!("{library:#?}"));
        assert_eq!(config.tls_reload, corelane::Tls::new("", "").reload);
    }
}
