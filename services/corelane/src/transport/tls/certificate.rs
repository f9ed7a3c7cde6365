//! Reads and checks a certificate chain with its key.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::Decode;

use super::Tls;
use crate::base::error::Error;

/// Maximum file size. No chain or key is this large, so a wrong path cannot make the server read a
/// huge file.
const MAX_BYTES: u64 = 1 << 20;

/// The files' contents.
#[derive(PartialEq, Eq)]
pub(super) struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    /// The client CAs.
    pub(super) ca: Option<Vec<u8>>,
}

impl fmt::Debug for Contents {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contents").finish_non_exhaustive()
    }
}

impl Contents {
    pub(super) fn read(tls: &Tls) -> Result<Self, Error> {
        Ok(Contents {
            certificate: read(&tls.certificate)?,
            key: read(&tls.key)?,
            ca: tls.clients.as_ref().map(|clients| read(&clients.ca)).transpose()?,
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    match read {
        Ok(n) if n as u64 > MAX_BYTES => Err(unusable(path, "is larger than 1 MiB")),
        Ok(_) => Ok(bytes),
        Err(error) => Err(unusable(path, format!("cannot be read: {error}"))),
    }
}

pub(super) fn unusable(path: &Path, problem: impl Into<String>) -> Error {
    Error::Tls { path: path.to_owned(), problem: problem.into() }
}

/// A chain with a matching key, ready for handshakes.
#[derive(Debug)]
pub(super) struct Certificate {
    pub(super) key: Arc<CertifiedKey>,
    pub(super) validity: Validity,
}

/// First and last second of the validity period, measured from the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Validity {
    not_before: Duration,
    pub(super) not_after: Duration,
}

/// The certificates in this file's PEM text (at least one).
pub(super) fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let chain = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable(path, format!("is not valid PEM: {error}")))?;
    match chain.is_empty() {
        true => Err(unusable(path, "contains no PEM certificate")),
        false => Ok(chain),
    }
}

impl Certificate {
    pub(super) fn new(contents: &Contents, tls: &Tls) -> Result<Self, Error> {
        let wrong = |problem: String| unusable(&tls.certificate, problem);
        let chain = certificates(&tls.certificate, &contents.certificate)?;
        let validity = Validity::of(&chain[0], &tls.certificate)?;
        let key = CertifiedKey::new(chain, private_key(contents, tls)?);
        key.keys_match().map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                let certificate = tls.certificate.display();
                unusable(&tls.key, format!("does not match the certificate in {certificate}"))
            }
            error => wrong(format!("contains an unusable certificate: {error}")),
        })?;
        Ok(Certificate { key: Arc::new(key), validity })
    }
}

impl Validity {
    /// The validity period of a certificate in this file.
    pub(super) fn of(certificate: &CertificateDer<'_>, path: &Path) -> Result<Self, Error> {
        // `Raw` checks only the form, because the other side decides what it accepts.
        let parsed = CertificateInner::<Raw>::from_der(certificate)
            .map_err(|error| unusable(path, format!("contains an invalid certificate: {error}")))?;
        let validity = parsed.tbs_certificate().validity();
        let (not_before, not_after) =
            (validity.not_before.to_unix_duration(), validity.not_after.to_unix_duration());
        Ok(Validity { not_before, not_after })
    }

    pub(super) fn has_expired(&self) -> bool {
        since_epoch() > self.not_after
    }

    /// The reason why the other side would currently reject the certificate, if any.
    pub(super) fn warning(&self) -> Option<&'static str> {
        match since_epoch() {
            now if now > self.not_after => Some("the certificate has expired"),
            now if now < self.not_before => Some("the certificate is not valid yet"),
            _ => None,
        }
    }
}

fn private_key(contents: &Contents, tls: &Tls) -> Result<Arc<dyn rustls::sign::SigningKey>, Error> {
    use rustls::pki_types::pem::Error as Pem;
    let key = PrivateKeyDer::from_pem_slice(&contents.key).map_err(|error| match error {
        Pem::NoItemsFound => unusable(
            &tls.key,
            "contains no PEM private key (PKCS #8, PKCS #1 or SEC 1, not encrypted)",
        ),
        error => unusable(&tls.key, format!("is not valid PEM: {error}")),
    })?;
    any_supported_type(&key).map_err(|_| {
        unusable(&tls.key, "contains a key that is neither RSA, ECDSA (P-256, P-384) nor Ed25519")
    })
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
