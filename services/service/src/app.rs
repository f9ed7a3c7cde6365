//! A service's entire process, from its command line to its exit code.

use std::ffi::OsString;
use std::fmt;
#[cfg(feature = "fuzzing")]
use std::io;
use std::process::ExitCode;
#[cfg(any(feature = "auth", feature = "faults"))]
use std::sync::Arc;

use corelane::{Builder, Drained};

use crate::config::{ConfigErrors, Invocation, Key, Keys, Program, Settings};
#[cfg(feature = "faults")]
use crate::faults::Faults;
use crate::process;
use crate::settings::Config;
use crate::start::{BoxError, Logged, Ready, Start};
use crate::telemetry;

const PREFIX: &str = "CORELANE_";

/// Variables that belong to the `corelane` command and to the local cluster.
const OTHERS: &[&str] =
    &["CORELANE_CAPACITY_", "CORELANE_CHECK_", "CORELANE_CLUSTER_STATE", "CORELANE_HOME"];

/// If this variable is set, a service prints the schema of its settings and exits, as with
/// `--schema`. A program with its own flags may not accept that flag.
const PRINT_SCHEMA: &str = "CORELANE_PRINT_SCHEMA";

/// A service that is not running yet. `C` is the type of the service's own settings, created by
/// [`settings!`](crate::settings), or `()` if it has none.
///
/// The [crate](crate) documentation has an example with settings and metrics.
///
/// ```no_run
/// use std::convert::Infallible;
/// use std::process::ExitCode;
///
/// use corelane::Incoming;
/// use corelane_service::App;
/// use http::{Request, Response};
///
/// fn main() -> ExitCode {
///     let app = App::<()>::new("ping", env!("CARGO_PKG_VERSION"), "Replies pong").preset("listen", "0.0.0.0:8080");
///     app.run(|(), start| {
///         Ok(start.serve(|_lane| {
///             tower::service_fn(|_request: Request<Incoming>| async {
///                 Ok::<_, Infallible>(Response::new("pong\n".to_owned()))
///             })
///         })?)
///     })
/// }
/// ```
#[must_use = "an app does nothing until it is run"]
pub struct App<C = ()> {
    name: &'static str,
    version: &'static str,
    about: &'static str,
    arguments: Option<Vec<OsString>>,
    presets: Vec<(&'static str, &'static str)>,
    routes: Vec<&'static str>,
    check: fn(&C, &str) -> Result<(), ConfigErrors>,
    extend: Box<dyn FnOnce(Builder) -> Builder>,
}

impl<C> fmt::Debug for App<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<C: Keys> App<C> {
    /// Creates a service from its program name, its version (usually `env!("CARGO_PKG_VERSION")`)
    /// and a line for its help. The spans also carry the name and version.
    ///
    /// # Panics
    ///
    /// One of the service's own setting keys clashes with a platform key or another flag.
    /// `--help` lists these.
    pub fn new(name: &'static str, version: &'static str, about: &'static str) -> Self {
        let keys = Config::<C>::keys();
        for (at, key) in keys.iter().enumerate() {
            let variable = key.variable(PREFIX);
            let flags = ["check", "config", "help", "schema", "version"];
            assert!(!flags.contains(&key.name), "the key {} has the name of a flag", key.name);
            let twice = keys[..at].iter().any(|other| other.variable(PREFIX) == variable);
            assert!(!twice, "the key {} is declared twice", key.name);
        }
        let extend = Box::new(|builder| builder);
        App {
            name,
            version,
            about,
            arguments: None,
            presets: Vec::new(),
            routes: Vec::new(),
            check: |_, _| Ok(()),
            extend,
        }
    }

    /// Sets the arguments after the program's name. The default is the process's arguments. A
    /// program with its own flags or subcommands passes the remaining arguments.
    pub fn arguments<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments = Some(arguments.into_iter().map(Into::into).collect());
        self
    }

    /// Overrides the platform's default for a key. For example, `listen` may come from a variable
    /// that the service used before.
    ///
    /// # Panics
    ///
    /// The key does not exist.
    pub fn preset(mut self, key: &'static str, value: impl Into<String>) -> Self {
        let known = Config::<C>::keys().iter().any(|known| known.name == key);
        assert!(known, "there is no key {key}");
        // The value lives as long as the other defaults.
        self.presets.push((key, Box::leak(value.into().into_boxed_str())));
        self
    }

    /// Sets route templates, such as `/orders/{id}`, for metrics, the load table and faults. See
    /// [`Builder::routes`]. A service that names its routes itself, for example with
    /// `corelane::axum::LearnRoutes`, needs them only for faults.
    pub fn routes(mut self, templates: impl IntoIterator<Item = &'static str>) -> Self {
        self.routes = templates.into_iter().collect();
        self
    }

    /// Checks the service's own settings beyond what their parsers check, for example two settings
    /// that contradict each other. The second argument is the replica's name. `--check` also runs
    /// this check.
    pub fn check(mut self, check: fn(&C, &str) -> Result<(), ConfigErrors>) -> Self {
        self.check = check;
        self
    }

    /// Changes the server's builder after the platform's settings are applied, to add admin pages
    /// or collectors. The platform's own request observer replaces any observer that you set.
    pub fn extend(mut self, extend: impl FnOnce(Builder) -> Builder + 'static) -> Self {
        self.extend = Box::new(extend);
        self
    }

    /// Runs the process from its command line and environment, and returns its exit code. Errors
    /// are printed to standard error, one per line; with `log.format = json` they are JSON, except
    /// for errors in the settings.
    ///
    /// | code | meaning |
    /// |---|---|
    /// | 0 | a clean drain, `--help`, `--schema`, or `--check` of valid settings |
    /// | 1 | the drain cut a request, or something failed |
    /// | 64 | the command line or a setting is wrong |
    ///
    /// The `CORELANE_PRINT_SCHEMA` variable has the effect of `--schema`. `corelane up` sets it to
    /// detect such services and read their settings.
    ///
    /// `serve` receives the service's own settings and a [`Start`] with open sockets. It calls
    /// [`Start::serve`], and may do other work before and after that.
    ///
    /// Blocks the thread. You may call it within `#[tokio::main]`, but tasks of that runtime then
    /// need other threads: use the `multi_thread` flavour, which is tokio's default.
    pub fn run<F>(self, serve: F) -> ExitCode
    where
        F: FnOnce(C, Start) -> Result<Drained, BoxError>,
    {
        let name = self.name;
        match self.attempt(serve) {
            Ok(Drained { cut: 0 }) => ExitCode::SUCCESS,
            Ok(Drained { .. }) => ExitCode::FAILURE,
            Err(error) => {
                let error = match error.downcast() {
                    Ok(logged) => {
                        let Logged(error) = *logged;
                        error
                    }
                    Err(error) => {
                        process::report(name, &error);
                        error
                    }
                };
                let setting = error.downcast_ref().is_some_and(corelane::Error::is_setting);
                let usage = setting || error.is::<ConfigErrors>();
                if usage { process::usage() } else { ExitCode::FAILURE }
            }
        }
    }

    fn program(&self) -> Program {
        let App { name, version, about, .. } = *self;
        Program { name, version, about, prefix: PREFIX, others: OTHERS, keys: self.keys() }
    }

    fn keys(&self) -> Vec<Key> {
        let mut keys = Config::<C>::keys();
        for (name, default) in &self.presets {
            keys.iter_mut().filter(|key| key.name == *name).for_each(|key| key.default = default);
        }
        keys
    }

    fn attempt<F>(self, serve: F) -> Result<Drained, BoxError>
    where
        F: FnOnce(C, Start) -> Result<Drained, BoxError>,
    {
        let program = self.program();
        if std::env::var_os(PRINT_SCHEMA).is_some_and(|value| !value.is_empty()) {
            process::print(&format!("{:#}\n", program.schema()));
            return Ok(Drained { cut: 0 });
        }
        let arguments: Vec<OsString> = match &self.arguments {
            Some(arguments) => [program.name.into()].into_iter().chain(arguments.clone()).collect(),
            None => std::env::args_os().collect(),
        };
        let open = |path: &str| std::fs::read_to_string(path);
        match program.read_all(arguments, std::env::vars_os(), open)? {
            Invocation::Print(text) => process::print(&text),
            Invocation::Check(settings) => {
                settings.warning().inspect(|warning| process::report(program.name, warning));
                process::print(&self.prepare(settings)?.shown);
            }
            Invocation::Run(settings) => return self.prepare(settings)?.run(serve),
        }
        Ok(Drained { cut: 0 })
    }

    fn prepare(self, mut settings: Settings) -> Result<Ready<C>, ConfigErrors> {
        self.presets.iter().for_each(|(key, value)| settings.preset(key, value));
        let (config, mut errors) = Config::<C>::parse(&settings);
        let Some(config) = config else { return Err(errors) };
        let Config { runtime, own, .. } = &config;
        let tls = errors.take(runtime.tls()).flatten();
        if let Some(tls) = &tls {
            errors.take(tls.check().map_err(|error| ConfigErrors(vec![error.to_string()])));
        }
        #[cfg(feature = "auth")]
        let auth = errors.take(config.auth.load(
            #[cfg(feature = "jwt")]
            &config.jwt,
        ));
        errors.take((self.check)(own, &runtime.replica_name()));
        let builder = runtime
            .builder()
            .client_addresses(config.log.log_client)
            .traces(telemetry::traces(&config.otlp, runtime.request_ids))
            .routes(self.routes.iter().copied());
        let builder = tls.into_iter().fold(builder, Builder::tls);
        let builder = (self.extend)(builder);
        errors.take(builder.validate().map_err(|error| ConfigErrors(vec![error.to_string()])));
        if !errors.0.is_empty() {
            return Err(errors);
        }
        let shown = settings.describe(&Config::<C>::keys(), &config.effective(&builder));
        Ok(Ready {
            warning: settings.warning().map(str::to_owned),
            name: self.name,
            version: self.version,
            builder,
            shown,
            #[cfg(feature = "auth")]
            auth: Arc::new(auth.unwrap_or_default()),
            #[cfg(feature = "faults")]
            faults: Arc::new(Faults::new(self.routes, config.faults.faults)),
            config,
        })
    }

    /// For `services/fuzz`: returns every value and the output of `--check` without effective
    /// values, or `None` for help or the version. `open` returns the text of a file.
    #[cfg(feature = "fuzzing")]
    #[doc(hidden)]
    pub fn accepted(
        &self,
        arguments: impl IntoIterator<Item = OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        open: impl Fn(&str) -> io::Result<String>,
    ) -> Result<Option<(String, String)>, ConfigErrors>
    where
        C: fmt::Debug,
    {
        let settings = match self.program().read_with(arguments, environment, open)? {
            Invocation::Print(_) => return Ok(None),
            Invocation::Check(settings) | Invocation::Run(settings) => settings,
        };
        let (config, errors) = Config::<C>::parse(&settings);
        let config = config.ok_or(errors)?;
        Ok(Some((settings.describe(&Config::<C>::keys(), &[]), format!("{config:?}"))))
    }
}

#[cfg(test)]
mod tests {
    use corelane::Server;

    use super::*;

    settings! {
        struct Twice {
            "limits_slots" => _slots: String = "", crate::value::text, "Slots";
        }
    }

    #[test]
    fn every_default_is_valid() {
        Config::<()>::parse(&Settings::default()).0.expect("defaults parse");
        let _ = App::<()>::new("demo", "1", "");
    }

    #[test]
    #[should_panic(expected = "limits_slots is declared twice")]
    fn two_keys_cannot_have_one_variable() {
        let _ = App::<Twice>::new("demo", "1", "");
    }

    #[test]
    fn defaults_are_those_of_the_library() {
        let Config { runtime, otlp, .. } =
            Config::<()>::parse(&Settings::default()).0.expect("valid");
        let ours = runtime.builder().traces(telemetry::traces(&otlp, runtime.request_ids));
        let library = Server::builder().bind("127.0.0.1:8080".parse().expect("an address"));
        let library = library.admin(runtime.admin_listen);
        // These two features cost something, so they are off by default in the library.
        let library = library.request_ids(true).traces(corelane::Traces::PassOn);
        assert_eq!(format!("{ours:#?}"), format!("{library:#?}"));
        assert_eq!(runtime.tls_reload, corelane::Tls::new("", "").reload);
    }
}
