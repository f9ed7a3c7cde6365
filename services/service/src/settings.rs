//! Every setting of a process: those of the platform, and the service's own.

use corelane::Builder;

#[cfg(feature = "auth")]
use crate::auth::AuthKeys;
#[cfg(feature = "jwt")]
use crate::auth::JwtKeys;
use crate::config::{ConfigErrors, Key, Keys, Settings};
#[cfg(feature = "faults")]
use crate::faults::FaultKeys;
use crate::logging::Logging;
use crate::runtime::Runtime;
use crate::telemetry::Otlp;

/// The settings of a process.
#[derive(Debug)]
pub(crate) struct Config<C> {
    pub(crate) runtime: Runtime,
    pub(crate) own: C,
    #[cfg(feature = "auth")]
    pub(crate) auth: AuthKeys,
    #[cfg(feature = "jwt")]
    pub(crate) jwt: JwtKeys,
    #[cfg(feature = "faults")]
    pub(crate) faults: FaultKeys,
    pub(crate) otlp: Otlp,
    pub(crate) log: Logging,
}

impl<C: Keys> Config<C> {
    /// The keys, in the order of the help.
    pub(crate) fn keys() -> Vec<Key> {
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
    pub(crate) fn parse(settings: &Settings) -> Result<Self, ConfigErrors> {
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
    pub(crate) fn effective(&self, builder: &Builder) -> Vec<(&'static str, String)> {
        let lanes = builder.planned_lanes().map(|lanes| ("lanes", lanes.to_string()));
        lanes.into_iter().chain([("replica", self.runtime.replica_name())]).collect()
    }
}
