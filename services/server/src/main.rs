//! The reference service of Corelane: every workload that the platform is measured with.

mod app;
mod config;
mod handlers;
mod logging;

use std::io::Write;
use std::process::ExitCode;

use corelane::{Builder, Drain, Drained, Error, Limits, Server, Timeouts};
use http::HeaderValue;

use crate::app::{App, ROUTES};
use crate::config::{Config, ConfigErrors, Invocation};

/// Bad usage or configuration (sysexits.h, EX_USAGE).
const EXIT_USAGE: u8 = 64;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(errors) => {
            report(&errors);
            ExitCode::from(EXIT_USAGE)
        }
    }
}

fn report(error: &dyn std::error::Error) {
    for line in error.to_string().lines() {
        // Not `eprintln!`, which panics when nobody reads standard error any more.
        let _ = writeln!(std::io::stderr(), "corelane-server: {line}");
    }
}

/// Prints for whoever still reads; `print!` would panic if nobody does.
fn show(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn run() -> Result<ExitCode, ConfigErrors> {
    match config::read(std::env::args_os(), std::env::vars_os())? {
        Invocation::Print(text) => show(&text),
        Invocation::Check(settings) => {
            if let Err(error) = builder(&Config::parse(&settings)?).validate() {
                return Ok(failed(&error));
            }
            show(&config::describe(&settings));
        }
        Invocation::Run(settings) => return Ok(serve(Config::parse(&settings)?)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves until drained: 0 after a clean drain, 1 when requests were cut or something failed.
fn serve(config: Config) -> ExitCode {
    let _flush_at_end = logging::start(config.log_level, config.log_format);
    let replica = replica_name(&config);
    // A name of printable ASCII, as the schema allows, is always a header value.
    let builder = match HeaderValue::from_str(&replica) {
        Ok(name) => builder(&config).replica(name),
        Err(_) => builder(&config),
    };
    match builder.build().and_then(|server| server.serve(App::factory(config, replica))) {
        Ok(Drained { cut: 0 }) => ExitCode::SUCCESS,
        Ok(Drained { .. }) => ExitCode::FAILURE,
        Err(error) => failed(&error),
    }
}

fn replica_name(config: &Config) -> String {
    match config.replica.as_str() {
        "" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        name => name.to_owned(),
    }
}

fn failed(error: &Error) -> ExitCode {
    report(error);
    if error.is_setting() { ExitCode::from(EXIT_USAGE) } else { ExitCode::FAILURE }
}

fn builder(config: &Config) -> Builder {
    Server::builder()
        .bind(config.listen)
        .admin(config.admin_listen)
        .lanes(config.lanes)
        .pin(config.pin)
        .placement(config.placement)
        .backlog(config.backlog as u32)
        .limits(Limits {
            connections: config.limits_connections as usize,
            headers: config.limits_headers as usize,
            header_bytes: config.limits_header_bytes as usize,
            uri_bytes: config.limits_uri_bytes as usize,
            body_bytes: config.limits_body_bytes,
        })
        .timeouts(Timeouts { header: config.timeouts_header, idle: config.timeouts_idle })
        .drain(Drain { settle: config.drain_settle, deadline: config.drain_deadline })
        .routes(ROUTES)
}
