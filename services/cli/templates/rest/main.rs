//! Settings, database and lanes of the process. Each lane serves `__CRATE__::service`.

use std::process::ExitCode;

use corelane_client::{Calls, Target}; //+calls
use corelane_service::{App, settings, value};

settings! {
    struct Settings {
        "app.greeting" => greeting: String = "hello", value::text, "Text of the front page";
        "__CALLS__.url" => __CALLS__: Target = "http://__CALLED__:8080", value::word::<Target>, "URL of __CALLED__"; //+calls
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
        let calls = Calls::new(); //+calls
        start.registry().register_collector(Box::new(calls.clone())); //+calls
        let __CALLS__ = calls.service("__CALLED__", settings.__CALLS__)?; //+calls
        let drained = start.try_serve(move |lane| {
            let (url, greeting) = (url.clone(), settings.greeting.clone());
            let __CALLS__ = __CALLS__.lane(); //+calls
            async move { __CRATE__::service(&lane, &url, greeting).await } //-calls
            async move { __CRATE__::service(&lane, &url, greeting, __CALLS__).await } //+calls
        })?;
        Ok(drained)
    })
}
