//! Certificates of Envoy's listeners, and CAs that its clusters trust, each in its own file that
//! Envoy watches (SDS).

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, SignatureAlgorithm};
use serde_json::json;

const FOLDER: &str = "certificates";

/// CAs of the gateway's image.
const SYSTEM: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Reason why Envoy could not use a certificate. Envoy would otherwise hold back all other
/// listeners.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error("tls.crt has no certificate in PEM")]
    NoChain,
    #[error("ca.crt has no certificate in PEM")]
    NoAuthority,
    #[error("ca.crt: {0}")]
    Authority(pem::Error),
    #[error("ca.crt: {0}")]
    Root(rustls::Error),
    #[error("tls.crt: {0}")]
    Chain(pem::Error),
    #[error("tls.key: {0}")]
    Key(pem::Error),
    #[error("tls.crt and tls.key: {0}")]
    Pair(#[from] rustls::Error),
    #[error("tls.key: the key is neither RSA nor ECDSA")]
    Algorithm,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Certificate(Content);

#[derive(Clone, PartialEq, Eq)]
enum Content {
    Pair { chain: String, key: String },
    Authorities(String),
    System,
}

impl Debug for Certificate {
    /// Omits the key, which must not be logged.
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.debug_struct("Certificate").finish_non_exhaustive()
    }
}

impl Certificate {
    pub(crate) fn read(chain: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(CertificateError::Chain)?;
        if certificates.is_empty() {
            return Err(CertificateError::NoChain);
        }
        let secret = PrivateKeyDer::from_pem_slice(key).map_err(CertificateError::Key)?;
        let pair = CertifiedKey::from_der(certificates, secret, &default_provider())?;
        match pair.key.algorithm() {
            SignatureAlgorithm::RSA | SignatureAlgorithm::ECDSA => {}
            _ => return Err(CertificateError::Algorithm),
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Self(Content::Pair { chain: text(chain), key: text(key) }))
    }

    pub(crate) fn authorities(text: &str) -> Result<Self, CertificateError> {
        let all: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(CertificateError::Authority)?;
        if all.is_empty() {
            return Err(CertificateError::NoAuthority);
        }
        let mut store = RootCertStore::empty();
        for each in all {
            store.add(each).map_err(CertificateError::Root)?;
        }
        Ok(Self(Content::Authorities(format!("{}\n", text.trim_end()))))
    }

    /// The CAs of the system.
    pub(crate) fn system() -> Self {
        Self(Content::System)
    }

    /// All CAs of these.
    pub(crate) fn joined(all: &[Arc<Self>]) -> Self {
        let text = |it: &Arc<Self>| match &it.0 {
            Content::Authorities(text) => Some(text.clone()),
            Content::Pair { .. } | Content::System => None,
        };
        Self(Content::Authorities(all.iter().filter_map(text).collect()))
    }

    fn resource(&self, name: &str) -> String {
        let kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
        let (key, content) = match &self.0 {
            Content::Pair { chain, key } => (
                "tls_certificate",
                json!({
                    "certificate_chain": {"inline_string": chain},
                    "private_key": {"inline_string": key},
                }),
            ),
            Content::Authorities(text) => {
                ("validation_context", json!({"trusted_ca": {"inline_string": text}}))
            }
            Content::System => ("validation_context", json!({"trusted_ca": {"filename": SYSTEM}})),
        };
        let secret = json!({"@type": kind, "name": name, key: content});
        json!({"resources": [secret]}).to_string()
    }
}

pub(crate) fn path(folder: &Path, name: &str) -> PathBuf {
    // Kubernetes names contain no `_`, so paths are unique per Secret.
    folder.join(FOLDER).join(format!("{}.json", name.replace('/', "_")))
}

pub(crate) type Certificates = BTreeMap<String, Arc<Certificate>>;

#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
    written: Certificates,
}

impl Files {
    /// An earlier agent's files stay until [`Self::retain`], because Envoy uses them.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), written: Certificates::new() }
    }

    /// Number of certificates without a file from this agent.
    pub(crate) fn missing(&self, wanted: &Certificates) -> usize {
        wanted.keys().filter(|name| !self.written.contains_key(*name)).count()
    }

    /// Atomically replaces files that differ. Returns whether any differed.
    pub(crate) fn write(&mut self, wanted: &Certificates) -> io::Result<bool> {
        let mut changed = false;
        for (name, certificate) in wanted {
            if self.written.get(name) == Some(certificate) {
                continue;
            }
            let path = path(&self.folder, name);
            let fresh = path.with_extension("new");
            let folder = self.folder.join(FOLDER);
            DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&fresh)?;
            file.write_all(certificate.resource(name).as_bytes())?;
            fs::rename(&fresh, &path)?;
            self.written.insert(name.clone(), Arc::clone(certificate));
            changed = true;
        }
        Ok(changed)
    }

    pub(crate) fn retain(&mut self, wanted: &Certificates) {
        self.written.retain(|name, _| wanted.contains_key(name));
        let kept: Vec<_> = wanted.keys().map(|name| path(&self.folder, name)).collect();
        let Ok(entries) = fs::read_dir(self.folder.join(FOLDER)) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            if !kept.contains(&path) {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rcgen::{KeyPair, PKCS_ED25519, generate_simple_self_signed};

    use super::*;

    fn pair(host: &str) -> (String, String) {
        let made = generate_simple_self_signed([host.to_owned()]).expect("a certificate");
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    pub(crate) fn certificate(host: &str) -> Arc<Certificate> {
        let (chain, key) = pair(host);
        Arc::new(Certificate::read(chain.as_bytes(), key.as_bytes()).expect("a certificate"))
    }

    pub(crate) fn authority(host: &str) -> Arc<Certificate> {
        Arc::new(Certificate::authorities(&pair(host).0).expect("a CA"))
    }

    #[test]
    fn a_pair_that_envoy_would_reject_is_found() {
        let ((chain, key), (_, other)) = (pair("a.io"), pair("b.io"));
        let ed25519 = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        let params = rcgen::CertificateParams::new(["a.io".to_owned()]).expect("parameters");
        let modern = params.self_signed(&ed25519).expect("a certificate").pem();
        for (chain, key, words) in [
            ("", key.as_str(), "tls.crt has no certificate"),
            ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", &key, "tls.crt: "),
            (&chain, "", "tls.key: "),
            (&chain, &chain, "tls.key: "),
            (&chain, &other, "tls.crt and tls.key: "),
            (&modern, &ed25519.serialize_pem(), "tls.key: the key is neither"),
        ] {
            let error = Certificate::read(chain.as_bytes(), key.as_bytes()).expect_err(words);
            assert!(error.to_string().starts_with(words), "{error}");
        }
        for (text, words) in [
            ("", "ca.crt has no certificate"),
            ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", "ca.crt: "),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "ca.crt: "),
        ] {
            let error = Certificate::authorities(text).expect_err(words);
            assert!(error.to_string().starts_with(words), "{error}");
        }
        assert!(Certificate::authorities(&chain).is_ok());
        let good = Certificate::read(chain.as_bytes(), key.as_bytes()).expect("a pair");
        assert_eq!(format!("{good:?}"), "Certificate { .. }");
    }

    #[test]
    fn files_follow_the_certificates_and_are_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut files = Files::new(folder.path());
        let first = Certificates::from([("shop/a".to_owned(), certificate("a.io"))]);
        let both =
            [("shop/a".to_owned(), certificate("a.io")), ("b/a".to_owned(), certificate("b"))];
        assert!(files.write(&first).expect("written"));
        assert!(!files.write(&first).expect("the same"));
        let both = Certificates::from(both);
        assert_eq!(files.missing(&both), 1);
        assert!(files.write(&both).expect("written"));
        let at = |name| path(folder.path(), name);
        let text = fs::read_to_string(at("shop/a")).expect("a file");
        assert_eq!(text, both["shop/a"].resource("shop/a"));
        let mode = fs::metadata(at("b/a")).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // An agent that starts later and has not written any files itself.
        Files::new(folder.path()).retain(&first);
        assert!(at("shop/a").exists() && !at("b/a").exists());
    }
}
