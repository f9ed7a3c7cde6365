//! The current certificate and CAs, and how they are replaced.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::SingleCertAndKey;
use rustls::{ServerConfig, ServerConnection};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::Tls;
use super::certificate::{Certificate, Contents, Validity};
use super::clients::Verifier;
use crate::base::error::Error;
use crate::request::client::ClientIdentity;

/// The TLS state that all lanes share.
#[derive(Debug)]
pub(crate) struct Termination {
    /// The lock is taken once per handshake, whose signature costs a thousand times as much.
    loaded: RwLock<Arc<Loaded>>,
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

/// The certificate and the CAs that new connections use.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Arc<ServerConfig>,
    certificate: Validity,
    clients: Option<Arc<Verifier>>,
    ca: Option<Vec<u8>>,
}

impl Loaded {
    /// Sessions of `previous` can be resumed if the client CAs are the same. If the CAs differ,
    /// tickets of `previous` cannot be read, including those that it issues later for a handshake
    /// that has already begun.
    pub(super) fn new(
        contents: &Contents,
        settings: &Tls,
        previous: Option<&Loaded>,
    ) -> Result<Self, Error> {
        let Certificate { key, validity: certificate } = Certificate::new(contents, settings)?;
        let ca = contents.ca.clone();
        let clients = settings.clients.as_ref().zip(ca.as_deref());
        let clients = clients.map(|(clients, pem)| Verifier::new(clients, pem)).transpose()?;
        let clients = clients.map(Arc::new);
        let verifier: Arc<dyn ClientCertVerifier> = match &clients {
            Some(clients) => Arc::clone(clients) as _,
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let refused =
            |error| Error::System { what: "setting up TLS", source: io::Error::other(error) };
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(refused)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        #[cfg(feature = "http2")]
        config.alpn_protocols.insert(0, b"h2".to_vec());
        // Tickets are used instead of a cache, so that lanes do not share sessions and do not wait
        // for each other.
        config.ticketer = match previous.filter(|previous| previous.ca == ca) {
            Some(previous) => Arc::clone(&previous.config.ticketer),
            None => Ticketer::new().map_err(refused)?,
        };
        Ok(Loaded { config: Arc::new(config), certificate, clients, ca })
    }

    /// The client's verified identity, if clients must prove their identity.
    pub(crate) fn client(&self, session: &ServerConnection) -> io::Result<Option<ClientIdentity>> {
        let Some(clients) = &self.clients else { return Ok(None) };
        clients.client(session).map(Some).map_err(io::Error::other)
    }

    /// The first file that has expired. An expired file makes every handshake fail.
    fn expired<'a>(&self, settings: &'a Tls) -> Option<&'a Path> {
        let clients = self.clients.as_ref().zip(settings.clients.as_ref());
        let ca =
            clients.filter(|(verifier, _)| verifier.has_expired()).map(|(_, clients)| &clients.ca);
        let certificate = self.certificate.has_expired().then_some(&settings.certificate);
        certificate.or(ca).map(PathBuf::as_path)
    }

    /// The time when the first certificate expires, in seconds since the Unix epoch.
    fn not_after(&self) -> u64 {
        let ca = self.clients.as_ref().map(|clients| clients.not_after());
        ca.unwrap_or(Duration::MAX).min(self.certificate.not_after).as_secs()
    }
}

impl Tls {
    /// Checks that the files are usable, as [`Builder::build`](crate::Builder::build) does. An
    /// expired certificate is logged but is not an error.
    ///
    /// # Errors
    ///
    /// [`Error::Tls`] names the file that cannot be read, contains no certificate or key, or contains a
    /// key that does not match the certificate.
    pub fn check(&self) -> Result<(), Error> {
        Loaded::new(&Contents::read(self)?, self, None).map(drop)
    }
}

impl Termination {
    /// Loads the files of `settings`.
    pub(crate) fn load(settings: &Tls) -> Result<(Self, Watch), Error> {
        let contents = Contents::read(settings)?;
        let loaded = Loaded::new(&contents, settings, None)?;
        announce(&loaded, settings, "TLS certificate loaded");
        let termination = Termination {
            loaded: RwLock::new(Arc::new(loaded)),
            reloads: Default::default(),
            up_to_date: AtomicBool::new(true),
            settings: settings.clone(),
        };
        Ok((termination, Watch { seen: Ok(contents) }))
    }

    /// The certificate and the CAs for a new connection.
    pub(crate) fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn verifies_clients(&self) -> bool {
        self.settings.clients.is_some()
    }

    /// The time when the first certificate in use expires, in seconds since the Unix epoch.
    pub(crate) fn not_after(&self) -> u64 {
        self.loaded().not_after()
    }

    pub(crate) fn reloads(&self, result: Reload) -> u64 {
        self.reloads[result as usize].load(Relaxed)
    }

    /// Whether the current file contents are in use, because the last reload, if any, succeeded.
    pub(crate) fn up_to_date(&self) -> bool {
        self.up_to_date.load(Relaxed)
    }

    /// Switches to the new files, or keeps the old files.
    fn renew(&self, contents: &Result<Contents, String>) {
        let loaded = match contents {
            Ok(contents) => Loaded::new(contents, &self.settings, Some(&self.loaded()))
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.clone()),
        };
        let result = match loaded {
            Ok(loaded) => match loaded.expired(&self.settings) {
                Some(path) => refuse(&format!("{}: has expired", path.display())),
                None => {
                    announce(&loaded, &self.settings, "TLS certificate reloaded");
                    *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
                    Reload::Success
                }
            },
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

fn announce(loaded: &Loaded, settings: &Tls, what: &'static str) {
    let (file, not_after) =
        (settings.certificate.display(), loaded.certificate.not_after.as_secs());
    match loaded.certificate.warning() {
        Some(warning) => tracing::warn!(%file, not_after, warning, "{what}"),
        None => tracing::info!(%file, not_after, "{what}"),
    }
}

/// The contents of the files when they were last read.
#[derive(Debug)]
pub(crate) struct Watch {
    seen: Result<Contents, String>,
}

impl Watch {
    /// Replaces the certificate and the CAs whenever the files' contents change.
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
