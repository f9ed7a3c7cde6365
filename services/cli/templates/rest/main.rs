//! Settings, database and lanes of the process. Each lane serves `__CRATE__::service`.

use std::process::ExitCode;

use corelane_service::{App, settings, value};

settings! {
    struct Settings {
        "app.greeting" => greeting: String = "hello", value::text, "Text of the front page";
    }
}

/// Defaults to a file in the working directory. DATABASE_URL names another database: sqlite:... or
/// postgres://...
const DATABASE: &str = "sqlite:__NAME__.db?mode=rwc";

fn main() -> ExitCode {
    let (name, version) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let app = App::<Settings>::new(name, version, env!("CARGO_PKG_DESCRIPTION"));
    app.run(|settings, start| {
        // Not a configuration key, because `--check` and `/config` would show the password.
        let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| DATABASE.to_owned());
        let drained = start.try_serve(move |lane| {
            let (url, greeting) = (url.clone(), settings.greeting.clone());
            async move { __CRATE__::service(&lane, &url, greeting).await }
        })?;
        Ok(drained)
    })
}
