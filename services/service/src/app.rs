//! The whole of a service's process: from its command line to its exit code.

use std::error::Error;
#[cfg(feature = "fuzzing")]
use std::ffi::OsString;
use std::fmt;
#[cfg(feature = "fuzzing")]
use std::io;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use corelane::prometheus_client::registry::Registry;
use corelane::{Builder, Drained, Incoming, Lane, Server};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use tower::Service;

#[cfg(feature = "jwt")]
use crate::auth::JwtKeys;
#[cfg(feature = "auth")]
use crate::auth::{Auth, AuthCollector, AuthKeys};
use crate::config::{ConfigErrors, Invocation, Key, Keys, Program, Settings};
#[cfg(feature = "faults")]
use crate::faults::{self, FaultCollector, FaultKeys, Faults};
use crate::logging::{self, Logging};
use crate::process;
use crate::runtime::Runtime;
use crate::telemetry::{self, Otlp, Source};

/// An error of any type, as services and their start have it.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Environment variables with this prefix are settings.
const PREFIX: &str = "CORELANE_";

/// A service, before it is run. `C` is the type of its own settings, made by
/// [`settings!`](crate::settings); `()` has none.
///
/// The [crate](crate) has a complete example.
#[must_use = "an app does nothing until it is run"]
pub struct App<C = ()> {
    name: &'static str,
    version: &'static str,
    about: &'static str,
    routes: Vec<&'static str>,
    check: fn(&C, &str) -> Result<(), ConfigErrors>,
    extend: Box<dyn FnOnce(Builder) -> Builder>,
}

impl<C> fmt::Debug for App<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The settings of a process.
#[derive(Debug)]
struct Config<C> {
    runtime: Runtime,
    own: C,
    #[cfg(feature = "auth")]
    auth: AuthKeys,
    #[cfg(feature = "jwt")]
    jwt: JwtKeys,
    #[cfg(feature = "faults")]
    faults: FaultKeys,
    otlp: Otlp,
    log: Logging,
}

impl<C: Keys> Config<C> {
    /// The keys, in the order of the help.
    fn keys() -> Vec<Key> {
        [
            Runtime::KEYS,
            C::KEYS,
            #[cfg(feature = "auth")]
            AuthKeys::KEYS,
            #[cfg(feature = "jwt")]
            JwtKeys::KEYS,
            #[cfg(feature = "faults")]
            FaultKeys::KEYS,
            Otlp::KEYS,
            Logging::KEYS,
        ]
        .concat()
    }

    /// Parses every setting. The errors name each invalid one.
    fn parse(settings: &Settings) -> Result<Self, ConfigErrors> {
        let mut errors = Vec::new();
        let runtime = Runtime::parse(settings, &mut errors);
        let own = C::parse(settings, &mut errors);
        #[cfg(feature = "auth")]
        let auth = AuthKeys::parse(settings, &mut errors);
        #[cfg(feature = "jwt")]
        let jwt = JwtKeys::parse(settings, &mut errors);
        #[cfg(feature = "faults")]
        let faults = FaultKeys::parse(settings, &mut errors);
        let otlp = Otlp::parse(settings, &mut errors);
        let log = Logging::parse(settings, &mut errors);
        let whole = || {
            Some(Config {
                runtime: runtime?,
                own: own?,
                #[cfg(feature = "auth")]
                auth: auth?,
                #[cfg(feature = "jwt")]
                jwt: jwt?,
                #[cfg(feature = "faults")]
                faults: faults?,
                otlp: otlp?,
                log: log?,
            })
        };
        whole().ok_or(ConfigErrors(errors))
    }

    /// The values that this machine gives to settings such as `auto`, for `--check` and `/config`.
    fn effective(&self, builder: &Builder) -> Vec<(&'static str, String)> {
        let lanes = builder.planned_lanes().map(|lanes| ("lanes", lanes.to_string()));
        lanes.into_iter().chain([("replica", self.runtime.replica_name())]).collect()
    }
}

impl<C: Keys> App<C> {
    /// A service with the name of its program, its version, usually `env!("CARGO_PKG_VERSION")`, and a line
    /// about it for the help. Name and version are also those of its spans.
    ///
    /// # Panics
    ///
    /// A key of the service's own settings is one of the platform's. `--help` lists those.
    pub fn new(name: &'static str, version: &'static str, about: &'static str) -> Self {
        let keys = Config::<C>::keys();
        for (at, key) in keys.iter().enumerate() {
            let variable = key.variable(PREFIX);
            let twice = keys[..at].iter().any(|other| other.variable(PREFIX) == variable);
            assert!(!twice, "the key {} is declared twice", key.name);
        }
        let extend = Box::new(|builder| builder);
        App { name, version, about, routes: Vec::new(), check: |_, _| Ok(()), extend }
    }

    /// The templates of the routes, such as `/orders/{id}`: for metrics, the load table and faults. See
    /// [`Builder::routes`]. A service that names its routes itself, as with `corelane::axum::LearnRoutes`,
    /// needs them only for faults.
    pub fn routes(mut self, templates: impl IntoIterator<Item = &'static str>) -> Self {
        self.routes = templates.into_iter().collect();
        self
    }

    /// Checks the service's own settings beyond what their parsers do, such as two that contradict each
    /// other. The second argument is the name of the replica. Also `--check` calls it.
    pub fn check(mut self, check: fn(&C, &str) -> Result<(), ConfigErrors>) -> Self {
        self.check = check;
        self
    }

    /// Changes the server's builder, after the settings of the platform: for pages of the admin port, or
    /// collectors. The observer of requests is the platform's own and replaces another.
    pub fn extend(mut self, extend: impl FnOnce(Builder) -> Builder + 'static) -> Self {
        self.extend = Box::new(extend);
        self
    }

    /// Runs the process with its command line and environment, and returns its exit code. Errors are lines on
    /// standard error.
    ///
    /// | code | meaning |
    /// |---|---|
    /// | 0 | a clean drain, `--help`, or `--check` of valid settings |
    /// | 1 | the drain cut a request, or something failed |
    /// | 64 | the command line or a setting is wrong |
    ///
    /// `serve` gets the service's own settings and a [`Start`] whose sockets are open. It calls
    /// [`Start::serve`], and may work before and after it.
    ///
    /// This blocks the thread. It may be called within `#[tokio::main]`, whose tasks then need other threads:
    /// the flavour `multi_thread`, which is tokio's default.
    pub fn run<F>(self, serve: F) -> ExitCode
    where
        F: FnOnce(C, Start) -> Result<Drained, BoxError>,
    {
        let name = self.name;
        match self.attempt(serve) {
            Ok(Drained { cut: 0 }) => ExitCode::SUCCESS,
            Ok(Drained { .. }) => ExitCode::FAILURE,
            Err(error) => {
                process::report(name, &error);
                let setting = error.downcast_ref().is_some_and(corelane::Error::is_setting);
                let usage = setting || error.is::<ConfigErrors>();
                if usage { process::usage() } else { ExitCode::FAILURE }
            }
        }
    }

    fn program(&self) -> Program {
        let App { name, version, about, .. } = *self;
        Program { name, version, about, prefix: PREFIX, keys: Config::<C>::keys() }
    }

    fn attempt<F>(self, serve: F) -> Result<Drained, BoxError>
    where
        F: FnOnce(C, Start) -> Result<Drained, BoxError>,
    {
        let program = self.program();
        match program.read(std::env::args_os(), std::env::vars_os())? {
            Invocation::Print(text) => process::print(&text),
            Invocation::Check(settings) => {
                let ready = self.prepare(&settings)?;
                ready.builder.validate()?;
                ready.config.runtime.tls()?.map_or(Ok(()), |tls| tls.check())?;
                process::print(&ready.shown);
            }
            Invocation::Run(settings) => return self.prepare(&settings)?.run(serve),
        }
        Ok(Drained { cut: 0 })
    }

    /// Parses and checks the settings.
    fn prepare(self, settings: &Settings) -> Result<Ready<C>, ConfigErrors> {
        let config = Config::<C>::parse(settings)?;
        let Config { runtime, own, .. } = &config;
        let tls = runtime.tls()?;
        #[cfg(feature = "auth")]
        let auth = config.auth.load(
            #[cfg(feature = "jwt")]
            &config.jwt,
        )?;
        #[cfg(feature = "auth")]
        let auth = Arc::new(auth);
        (self.check)(own, &runtime.replica_name())?;
        let builder = runtime
            .builder()
            .client_addresses(config.log.log_client)
            .traces(telemetry::traces(&config.otlp, runtime.request_ids))
            .routes(self.routes.iter().copied());
        let builder = tls.into_iter().fold(builder, Builder::tls);
        let builder = (self.extend)(builder);
        let shown = settings.describe(&Config::<C>::keys(), &config.effective(&builder));
        Ok(Ready {
            name: self.name,
            version: self.version,
            builder,
            shown,
            #[cfg(feature = "auth")]
            auth,
            #[cfg(feature = "faults")]
            faults: Arc::new(Faults::new(self.routes, config.faults.faults)),
            config,
        })
    }

    /// For `services/fuzz`: the output of `--check` without effective values and every value, or `None` for
    /// help or the version. `open` returns the text of a file.
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
        let config = Config::<C>::parse(&settings)?;
        Ok(Some((settings.describe(&Config::<C>::keys(), &[]), format!("{config:?}"))))
    }
}

/// A service whose settings are valid, as far as they are known without the machine.
struct Ready<C> {
    name: &'static str,
    version: &'static str,
    config: Config<C>,
    builder: Builder,
    /// What `--check` and `/config` show.
    shown: String,
    #[cfg(feature = "auth")]
    auth: Arc<Auth>,
    #[cfg(feature = "faults")]
    faults: Arc<Faults>,
}

impl<C> Ready<C> {
    /// Creates the parts of the service, serves, and ends them in this order.
    fn run<F>(self, serve: F) -> Result<Drained, BoxError>
    where
        F: FnOnce(C, Start) -> Result<Drained, BoxError>,
    {
        let Ready { name, version, config, shown, .. } = self;
        let (_flush_at_end, log_level) = logging::start(&config.log)?;
        let replica = config.runtime.replica_name();
        let registry = Arc::<Mutex<Registry>>::default();
        let builder = named(self.builder, &replica)
            .registry(Arc::clone(&registry))
            .admin_route(logging::LEVEL_PATH, move |request| log_level.answer(&request))
            .admin_route("/config", move |_request| text(shown.clone()));
        #[cfg(feature = "faults")]
        let builder = with_drills(builder, &self.faults);
        let tls = config.runtime.tls_certificate.is_some();
        let source = Source { name, version, replica: &replica, tls };
        let (builder, _sent_at_end) = telemetry::start(builder, &config.otlp, &source)?;
        #[cfg(feature = "auth")]
        let builder = with_tokens(builder, &self.auth);
        let start = Start {
            server: builder.build()?,
            replica,
            registry,
            #[cfg(feature = "auth")]
            auth: self.auth,
            #[cfg(feature = "faults")]
            faults: self.faults,
        };
        serve(config.own, start)
    }
}

fn named(builder: Builder, replica: &str) -> Builder {
    // The schema requires printable ASCII, which is a valid header value.
    match HeaderValue::from_str(replica) {
        Ok(name) => builder.replica(name),
        Err(_) => builder,
    }
}

fn text(body: String) -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::from(body));
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    reply
}

/// The page always exists, because it shows how to enable faults.
#[cfg(feature = "faults")]
fn with_drills(builder: Builder, faults: &Arc<Faults>) -> Builder {
    let builder = builder.admin_route("/faults", faults::handler(Arc::clone(faults)));
    match faults.enabled() {
        true => builder.collector(FaultCollector(Arc::clone(faults))),
        false => builder,
    }
}

#[cfg(feature = "auth")]
fn with_tokens(builder: Builder, auth: &Arc<Auth>) -> Builder {
    if let Err(error) = auth.watch() {
        tracing::error!(%error, "tokens are not reloaded: cannot start a thread");
    }
    builder.collector(AuthCollector(Arc::clone(auth)))
}

/// A service whose sockets are open, and whose log and traces work.
#[derive(Debug)]
pub struct Start {
    server: Server,
    replica: String,
    registry: Arc<Mutex<Registry>>,
    #[cfg(feature = "auth")]
    auth: Arc<Auth>,
    #[cfg(feature = "faults")]
    faults: Arc<Faults>,
}

impl Start {
    /// Serves until the drain has ended, which SIGTERM and SIGINT start. `factory` makes the service of each
    /// lane, on the lane's thread. See [`Server::serve`].
    ///
    /// # Errors
    ///
    /// As [`Server::serve`].
    pub fn serve<F, S, B>(self, factory: F) -> Result<Drained, corelane::Error>
    where
        F: Fn(&Lane) -> S + Send + Sync + 'static,
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + 'static,
        S::Error: Into<BoxError>,
        B: Body<Data = Bytes> + 'static,
        B::Error: Into<BoxError>,
    {
        self.server.serve(factory)
    }

    /// As [`Start::serve`], with a factory that awaits and may fail. See [`Server::try_serve`].
    ///
    /// # Errors
    ///
    /// As [`Server::try_serve`].
    pub fn try_serve<F, T, S, E, B>(self, factory: F) -> Result<Drained, corelane::Error>
    where
        F: Fn(Lane) -> T + Send + Sync + 'static,
        T: Future<Output = Result<S, E>> + 'static,
        E: Into<BoxError>,
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + 'static,
        S::Error: Into<BoxError>,
        B: Body<Data = Bytes> + 'static,
        B::Error: Into<BoxError>,
    {
        self.server.try_serve(factory)
    }

    /// The server: its addresses, and a handle to its drain and to the health of what the service depends on.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The name of this replica.
    pub fn replica(&self) -> &str {
        &self.replica
    }

    /// The registry of the service's own metrics. `/metrics` shows them after those of the platform, whose
    /// names begin with `corelane_`.
    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bearer tokens of the file that `auth.tokens` names.
    #[cfg(feature = "auth")]
    pub fn auth(&self) -> Arc<Auth> {
        Arc::clone(&self.auth)
    }

    /// The faults of a drill. The layer that [`Faults::lane`] makes applies them; without `faults = on` there
    /// are none.
    #[cfg(feature = "faults")]
    pub fn faults(&self) -> Arc<Faults> {
        Arc::clone(&self.faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    settings! {
        struct Twice {
            "limits_slots" => _slots: String = "", crate::value::text, "Slots";
        }
    }

    #[test]
    fn every_default_is_valid() {
        Config::<()>::parse(&Settings::default()).expect("defaults parse");
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
            Config::<()>::parse(&Settings::default()).expect("valid");
        let ours = runtime.builder().traces(telemetry::traces(&otlp, runtime.request_ids));
        let library = Server::builder().bind("127.0.0.1:8080".parse().expect("an address"));
        let library = library.admin(runtime.admin_listen);
        // These two cost something, which a library leaves to its user.
        let library = library.request_ids(true).traces(corelane::Traces::PassOn);
        assert_eq!(format!("{ours:#?}"), format!("{library:#?}"));
        assert_eq!(runtime.tls_reload, corelane::Tls::new("", "").reload);
    }
}
