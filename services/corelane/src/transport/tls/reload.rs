//! The current certificate, and its replacement.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::Tls;
use super::certificate::{Certificate, Contents};
use crate::base::error::Error;

/// The TLS state that all lanes share.
#[derive(Debug)]
pub(crate) struct Termination {
    pub(crate) config: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
    reloads: [AtomicU64; Reload::ALL.len()],
    up_to_date: AtomicBool,
    settings: Tls,
}

/// The result of a certificate reload.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reload {
    Success,
    Failure,
}

impl Reload {
    pub(crate) const ALL: [(Reload, &'static str); 2] =
        [(Reload::Success, "success"), (Reload::Failure, "failure")];
}

/// The certificate for new connections.
#[derive(Debug)]
struct Certificates {
    /// Read once per handshake, whose signature costs a thousand times as much.
    current: RwLock<Arc<CertifiedKey>>,
    not_after: AtomicU64,
}

impl Certificates {
    fn new(certificate: Certificate) -> Self {
        Certificates {
            not_after: AtomicU64::new(certificate.not_after.as_secs()),
            current: RwLock::new(certificate.key),
        }
    }

    fn replace(&self, certificate: Certificate) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = certificate.key;
        self.not_after.store(certificate.not_after.as_secs(), Relaxed);
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Termination {
    /// Loads the files of `settings`.
    pub(crate) fn load(settings: &Tls) -> Result<(Self, Watch), Error> {
        let contents = Contents::read(settings)?;
        let certificate = Certificate::new(&contents, settings)?;
        announce(&certificate, settings, "TLS certificate loaded");
        let certificates = Arc::new(Certificates::new(certificate));
        let termination = Termination {
            config: Arc::new(config(Arc::clone(&certificates))?),
            certificates,
            reloads: Default::default(),
            up_to_date: AtomicBool::new(true),
            settings: settings.clone(),
        };
        Ok((termination, Watch { seen: Ok(contents) }))
    }

    /// The expiry of the current certificate, in seconds since the Unix epoch.
    pub(crate) fn not_after(&self) -> u64 {
        self.certificates.not_after.load(Relaxed)
    }

    pub(crate) fn reloads(&self, result: Reload) -> u64 {
        self.reloads[result as usize].load(Relaxed)
    }

    /// Whether the current file contents are in use: the last reload, if there was one, succeeded.
    pub(crate) fn up_to_date(&self) -> bool {
        self.up_to_date.load(Relaxed)
    }

    /// Uses a new certificate, or keeps the old one.
    fn renew(&self, contents: &Result<Contents, String>) {
        let certificate = match contents {
            Ok(contents) => {
                Certificate::new(contents, &self.settings).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.clone()),
        };
        let result = match certificate {
            Ok(certificate) if certificate.has_expired() => {
                refuse(&format!("{}: has expired", self.settings.certificate.display()))
            }
            Ok(certificate) => {
                announce(&certificate, &self.settings, "TLS certificate reloaded");
                self.certificates.replace(certificate);
                Reload::Success
            }
            Err(error) => refuse(&error),
        };
        self.reloads[result as usize].fetch_add(1, Relaxed);
        self.up_to_date.store(matches!(result, Reload::Success), Relaxed);
    }
}

fn refuse(error: &str) -> Reload {
    tracing::error!(error, "TLS certificate not reloaded: the previous one stays in use");
    Reload::Failure
}

fn announce(certificate: &Certificate, settings: &Tls, what: &'static str) {
    let (file, not_after) = (settings.certificate.display(), certificate.not_after.as_secs());
    match certificate.warning() {
        Some(warning) => tracing::warn!(%file, not_after, warning, "{what}"),
        None => tracing::info!(%file, not_after, "{what}"),
    }
}

fn config(certificates: Arc<Certificates>) -> Result<ServerConfig, Error> {
    let refused =
        |error| Error::System { what: "setting up TLS", source: std::io::Error::other(error) };
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    #[cfg(feature = "http2")]
    config.alpn_protocols.insert(0, b"h2".to_vec());
    // Tickets instead of a cache: lanes share no sessions and do not wait for each other.
    config.ticketer = Ticketer::new().map_err(refused)?;
    Ok(config)
}

/// The contents of the files when they were last read.
#[derive(Debug)]
pub(crate) struct Watch {
    seen: Result<Contents, String>,
}

impl Watch {
    /// Replaces the certificate whenever the contents of the files change.
    pub(crate) async fn run(mut self, tls: &Termination) {
        let every = tls.settings.reload;
        let mut ticks = interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let settings = tls.settings.clone();
            // A volume that hangs must not block the admin port.
            let read = spawn_blocking(move || Contents::read(&settings)).await;
            let Ok(read) = read.map(|read| read.map_err(|error| error.to_string())) else {
                return; // the runtime is going down
            };
            self.judge(read, tls);
        }
    }

    /// Applies new contents. Contents that were rejected are not checked again.
    fn judge(&mut self, read: Result<Contents, String>, tls: &Termination) {
        if read != self.seen {
            tls.renew(&read);
            self.seen = read;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_content_is_judged_once() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let settings = Tls::new(folder.path().join("a.crt"), folder.path().join("a.key"));
        let write = |certificate: &str, key: &str| {
            std::fs::write(&settings.certificate, certificate).expect("write");
            std::fs::write(&settings.key, key).expect("write");
        };
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a pair");
        let (certificate, key) = (pair.cert.pem(), pair.signing_key.serialize_pem());
        write(&certificate, &key);
        let (tls, mut watch) = Termination::load(&settings).expect("a certificate");
        let mut look = || {
            for _ in 0..3 {
                let read = Contents::read(&settings).map_err(|error| error.to_string());
                watch.judge(read, &tls);
            }
            (tls.reloads(Reload::Success), tls.reloads(Reload::Failure))
        };
        assert_eq!(look(), (0, 0));
        write("not a certificate", &key);
        assert_eq!(look(), (0, 1));
        write("nor this", &key);
        assert_eq!(look(), (0, 2));
        std::fs::remove_file(&settings.key).expect("remove");
        assert_eq!(look(), (0, 3));
        write(&certificate, &key);
        assert_eq!(look(), (1, 3), "a return to the certificate in use ends the failure");
    }
}
