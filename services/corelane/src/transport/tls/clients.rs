//! Verifies client certificates and identities.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error as Refused, HandshakeKind,
    RootCertStore, ServerConnection, SignatureScheme,
};
use webpki::EndEntityCert;

use super::TlsClients;
use super::certificate::{Validity, certificates, unusable};
use crate::base::error::Error;
use crate::metrics::Handshake;
use crate::request::client::ClientIdentity;

/// Accepts certificates that a trusted CA issued for TLS clients and that name an allowed identity.
#[derive(Debug)]
pub(super) struct Verifier {
    /// The trusted CAs (at least one).
    authorities: Vec<Authority>,
    subjects: Vec<DistinguishedName>,
    allow: Vec<ClientIdentity>,
}

/// A client CA. Each CA has its own verifier, because rustls does not check whether a CA is still
/// valid.
#[derive(Debug)]
struct Authority {
    validity: Validity,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Verifier {
    /// Trusts the CAs in the file's PEM text.
    pub(super) fn new(clients: &TlsClients, pem: &[u8]) -> Result<Self, Error> {
        let wrong = |error: &dyn std::fmt::Display| {
            unusable(&clients.ca, format!("contains an unusable CA: {error}"))
        };
        let (provider, mut authorities) = (Arc::new(default_provider()), Vec::new());
        for certificate in certificates(&clients.ca, pem)? {
            let validity = Validity::of(&certificate, &clients.ca)?;
            let mut roots = RootCertStore::empty();
            roots.add(certificate).map_err(|error| wrong(&error))?;
            let (roots, provider) = (Arc::new(roots), Arc::clone(&provider));
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            let verifier = verifier.map_err(|error| wrong(&error))?;
            authorities.push(Authority { validity, verifier });
            if let Some(warning) = validity.warning() {
                let (file, not_after) = (clients.ca.display(), validity.not_after.as_secs());
                tracing::warn!(%file, not_after, warning, "CA of TLS clients");
            }
        }
        let subjects = authorities.iter().flat_map(|ca| ca.verifier.root_hint_subjects());
        Ok(Verifier {
            subjects: subjects.cloned().collect(),
            authorities,
            allow: clients.allow.clone(),
        })
    }

    /// The time when the first CA expires, measured from the Unix epoch.
    pub(super) fn not_after(&self) -> Duration {
        let times = self.authorities.iter().map(|authority| authority.validity.not_after);
        times.min().expect("a CA")
    }

    /// Whether every CA has expired.
    pub(super) fn has_expired(&self) -> bool {
        self.authorities.iter().all(|authority| authority.validity.has_expired())
    }

    /// A client's identity after its handshake.
    pub(super) fn client(&self, session: &ServerConnection) -> Result<ClientIdentity, Refused> {
        let chain = session.peer_certificates().unwrap_or_default();
        let (own, issuers) = chain.split_first().ok_or(Refused::NoCertificatesPresented)?;
        // When a session is resumed, rustls does not verify the client's certificate again. The CA
        // may have expired.
        if session.handshake_kind() == Some(HandshakeKind::Resumed) {
            self.verify_client_cert(own, issuers, UnixTime::now())?;
        }
        self.identity(own)
    }

    /// The first allowed identity that a verified certificate names.
    fn identity(&self, certificate: &CertificateDer<'_>) -> Result<ClientIdentity, Refused> {
        let parsed =
            EndEntityCert::try_from(certificate).map_err(|_| CertificateError::BadEncoding)?;
        let named = |allowed: &&ClientIdentity| match allowed.is_uri() {
            true => parsed.valid_uri_names().any(|name| name == allowed.as_str()),
            false => parsed.valid_dns_names().any(|n| n.eq_ignore_ascii_case(allowed.as_str())),
        };
        self.allow.iter().find(named).cloned().ok_or_else(|| {
            let names = parsed.valid_uri_names().chain(parsed.valid_dns_names());
            let names = names.collect::<Vec<_>>();
            tracing::debug!(?names, "a TLS client's certificate names no allowed identity");
            CertificateError::ApplicationVerificationFailure.into()
        })
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Refused> {
        use CertificateError::{BadSignature, UnknownIssuer};
        let mut refused = UnknownIssuer.into();
        for authority in self.authorities.iter().filter(|ca| !ca.validity.has_expired()) {
            match authority.verifier.verify_client_cert(end_entity, intermediates, now) {
                Ok(verified) => return self.identity(end_entity).map(|_| verified),
                // The certificate belongs to another CA or to another key of a CA with this name.
                Err(Refused::InvalidCertificate(UnknownIssuer | BadSignature)) => {}
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Refused> {
        self.authorities[0].verifier.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Refused> {
        self.authorities[0].verifier.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities[0].verifier.supported_verify_schemes()
    }
}

/// The result to record for a failed handshake. An invalid certificate is always the client's.
pub(crate) fn failure(error: &io::Error) -> Handshake {
    use CertificateError::{
        ApplicationVerificationFailure, Expired, ExpiredContext, UnknownIssuer,
    };
    match error.get_ref().and_then(|error| error.downcast_ref()) {
        Some(Refused::NoCertificatesPresented) => Handshake::ClientMissing,
        Some(Refused::InvalidCertificate(problem)) => match problem {
            UnknownIssuer => Handshake::ClientUnknown,
            Expired | ExpiredContext { .. } => Handshake::ClientExpired,
            ApplicationVerificationFailure => Handshake::ClientNotAllowed,
            _ => Handshake::ClientInvalid,
        },
        _ => Handshake::Failure,
    }
}
