//! Corelane's reference service, with every workload that is used to measure the platform.

mod app;
mod config;
mod docs;
mod files;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handlers;
mod openapi;
mod projects;

use std::process::ExitCode;
use std::sync::Arc;

use corelane::Drained;
use corelane_service::{BoxError, Start};

use crate::app::{App, Common};
use crate::config::Config;
use crate::projects::database::Database;
use crate::projects::metrics::Metrics;

/// Runs the program from its command line, environment and file.
pub fn main() -> ExitCode {
    // The allocator requests no huge pages (its `no_thp` feature). If the kernel provides them
    // anyway, each block counts as fully used. This call fails harmlessly on kernels without huge
    // pages.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let metrics = Arc::<Metrics>::default();
    let collector = Arc::clone(&metrics);
    app::service()
        .extend(|builder| builder.learnt_routes(0).collector(collector))
        .run(move |config, start| serve(config, start, &metrics))
}

fn serve(config: Config, start: Start, metrics: &Arc<Metrics>) -> Result<Drained, BoxError> {
    let replica = start.replica().to_owned();
    let database =
        Database::open(&config, metrics, &start.server().handle(), &replica)?.map(Arc::new);
    let common = Common { auth: start.auth(), faults: start.faults(), database: database.clone() };
    let served = start.try_serve(App::factory(config, replica, common));
    // The lanes have exited and released their references.
    if let Some(database) = database.and_then(Arc::into_inner) {
        database.close();
    }
    Ok(served?)
}

#[cfg(test)]
mod tests {
    use corelane::Server;
    use corelane_service::config::Keys;

    use super::*;

    #[test]
    fn a_lane_without_its_files_ends_the_start() {
        let config = Config::parse(&Default::default(), &mut Vec::new());
        let mut config = config.expect("defaults parse");
        config.static_root = Some("/no/such/folder".into());
        let common = Common { auth: Arc::default(), faults: Arc::default(), database: None };
        let server = Server::builder().bind("127.0.0.1:0".parse().expect("an address"));
        let server = server.signals(false).build().expect("it binds");
        let served = server.try_serve(App::factory(config, String::new(), common));
        let text = served.expect_err("no lane has its files").to_string();
        assert!(text.contains("static.root: cannot open /no/such/folder"), "{text}");
    }
}
