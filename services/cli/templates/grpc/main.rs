//! Settings and lanes of the process. Each lane serves `__CRATE__::service`.

use std::process::ExitCode;

use corelane_service::{App, settings, value};

settings! {
    struct Settings {
        "app.greeting" => greeting: String = "hello", value::text, "First word of each greeting";
    }
}

fn main() -> ExitCode {
    let (name, version) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let app = App::<Settings>::new(name, version, env!("CARGO_PKG_DESCRIPTION"));
    // Metrics, logs and the load table name each call after its path.
    app.routes(["/greeter.v1.Greeter/Greet"]).run(|settings, start| {
        Ok(start.serve(move |_lane| __CRATE__::service(settings.greeting.clone()))?)
    })
}
