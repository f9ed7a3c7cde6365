//! Settings and lanes of the process. Each lane serves `__CRATE__::service`.

use std::process::ExitCode;

use __CRATE__::Everyone;
use corelane_service::{App, settings, value};

settings! {
    struct Settings {
        "app.greeting" => greeting: String = "hello", value::text, "First message to each member";
    }
}

fn main() -> ExitCode {
    let (name, version) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let app = App::<Settings>::new(name, version, env!("CARGO_PKG_DESCRIPTION"));
    app.run(|settings, start| {
        let everyone = Everyone::default();
        Ok(start.serve(move |lane| __CRATE__::service(lane, &everyone, &settings.greeting))?)
    })
}
