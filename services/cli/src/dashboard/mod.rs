//! `corelane dashboard`: serves a page that shows a local instance, with buttons that break its
//! processes.

mod instance;
mod load;
mod serve;
mod state;

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use corelane_service::flags::allowed;
use corelane_service::process;

use self::instance::Instance;
use self::load::Load;
use crate::checkout;

/// Serve a page for a running instance: its processes, rates and latencies, and buttons that break
/// it
///
/// `corelane up` and `make up` start it automatically.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: corelane dashboard --instance .run/default --listen 127.0.0.1:8071"
)]
pub(crate) struct Dashboard {
    /// Instance folder [default: .corelane/INSTANCE, with INSTANCE from the environment or
    /// "default"]
    #[arg(long, value_name = "FOLDER")]
    instance: Option<PathBuf>,
    /// Loopback address of the page
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8070")]
    #[arg(value_parser = allowed(loopback))]
    listen: SocketAddr,
    /// The instance's supervisord socket [default: supervisor.sock in its folder]
    #[arg(long, value_name = "SOCKET")]
    supervisor: Option<PathBuf>,
    /// Path that the page's load requests; may be repeated
    #[arg(long = "path", value_name = "PATH", default_value = "/")]
    paths: Vec<String>,
}

/// Accepts only loopback addresses, because visitors to the page can kill replicas.
fn loopback(text: &str) -> Result<SocketAddr, &'static str> {
    let address = text.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback());
    address.ok_or("a loopback address and a port, such as 127.0.0.1:8070")
}

impl Dashboard {
    pub(crate) fn run(self) -> ExitCode {
        let usual = || Path::new(".corelane").join(checkout::instance());
        let folder = self.instance.unwrap_or_else(usual);
        let socket = self.supervisor.unwrap_or_else(|| folder.join("supervisor.sock"));
        // supervisord listens before it starts this process and until the instance stops.
        if let Err(error) = UnixStream::connect(&socket) {
            let place = folder.display();
            let start = "start an instance with corelane up, or name its folder with --instance";
            process::report(crate::NAME, &format!("nothing is up in {place} ({error}): {start}"));
            return ExitCode::FAILURE;
        }
        let instance = Instance::new(folder, socket);
        let serve = serve::serve(self.listen, instance, Arc::new(Load::new(self.paths)));
        let error = match process::block_on(serve, true) {
            Ok(Ok(never)) => match never {},
            Ok(Err(error)) => format!("{}: {error}", self.listen),
            Err(error) => error.to_string(),
        };
        process::report(crate::NAME, &error);
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_are_allowed() {
        for text in ["127.0.0.1:8070", "[::1]:0", "127.1.2.3:1"] {
            assert!(loopback(text).is_ok(), "{text}");
        }
        for text in ["0.0.0.0:8070", "[::]:8070", "10.0.0.1:8070", "localhost:8070", "8070"] {
            assert!(loopback(text).is_err(), "{text}");
        }
    }
}
