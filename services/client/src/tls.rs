//! TLS to called services: the current configuration, and how it is replaced.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use corelane::ClientIdentity;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::ring::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as Refused, RootCertStore,
    SignatureScheme,
};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use webpki::EndEntityCert;

use crate::settings::Tls;

/// Maximum size of a file.
const MAX_BYTES: u64 = 1 << 20;

/// The files' contents: the CAs, and the certificate with its key.
#[derive(PartialEq, Eq)]
pub(crate) struct Contents {
    ca: Vec<u8>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Contents {
    pub(crate) fn read(tls: &Tls) -> Result<Self, String> {
        let identity = tls.identity.as_ref();
        let identity = identity.map(|(chain, key)| Ok::<_, String>((read(chain)?, read(key)?)));
        Ok(Contents { ca: read(&tls.ca)?, identity: identity.transpose()? })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    match read {
        Ok(n) if n as u64 > MAX_BYTES => Err(format!("{}: is larger than 1 MiB", path.display())),
        Ok(_) => Ok(bytes),
        Err(error) => Err(format!("{}: cannot be read: {error}", path.display())),
    }
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|error| format!("{}: is not valid PEM: {error}", path.display()))?;
    match all.is_empty() {
        true => Err(format!("{}: contains no PEM certificate", path.display())),
        false => Ok(all),
    }
}

/// The configuration for new connections.
pub(crate) fn config(
    tls: &Tls,
    contents: &Contents,
    is_http2: bool,
) -> Result<ClientConfig, String> {
    let provider = Arc::new(default_provider());
    let mut roots = RootCertStore::empty();
    for ca in certificates(&tls.ca, &contents.ca)? {
        let unusable = |error| format!("{}: contains an unusable CA: {error}", tls.ca.display());
        roots.add(ca).map_err(unusable)?;
    }
    let name = tls.name.clone();
    let verifier = Verifier { roots, name, provider: Arc::clone(&provider) };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match tls.identity.as_ref().zip(contents.identity.as_ref()) {
        None => builder.with_no_client_auth(),
        Some(((chain, key), (chain_pem, key_pem))) => {
            let unusable = |error: String| format!("{}: {error}", key.display());
            let secret = PrivateKeyDer::from_pem_slice(key_pem);
            let secret = secret.map_err(|error| unusable(error.to_string()))?;
            builder
                .with_client_auth_cert(certificates(chain, chain_pem)?, secret)
                .map_err(|error| unusable(error.to_string()))?
        }
    };
    config.alpn_protocols = vec![if is_http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    Ok(config)
}

/// Replaces the configuration whenever the files' contents change, until nobody uses it.
pub(crate) async fn watch(
    tls: &Tls,
    is_http2: bool,
    mut seen: Result<Contents, String>,
    current: &watch::Sender<Arc<ClientConfig>>,
) {
    let mut ticks = interval_at(Instant::now() + tls.reload, tls.reload);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let settings = tls.clone();
        let Ok(read) = spawn_blocking(move || Contents::read(&settings)).await else { return };
        if read == seen {
            continue;
        }
        let renewed = match &read {
            Ok(contents) => config(tls, contents, is_http2),
            Err(error) => Err(error.clone()),
        };
        match renewed {
            Ok(config) => {
                tracing::info!(ca = %tls.ca.display(), "TLS files of calls reloaded");
                current.send_replace(Arc::new(config));
            }
            Err(error) => {
                tracing::error!(
                    error,
                    "TLS files of calls not reloaded: the previous ones stay in use"
                );
            }
        }
        seen = read;
    }
}

/// Accepts certificates that a trusted CA issued for TLS servers and that name the service.
#[derive(Debug)]
struct Verifier {
    roots: RootCertStore,
    name: ClientIdentity,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Refused> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        let parsed =
            EndEntityCert::try_from(end_entity).map_err(|_| CertificateError::BadEncoding)?;
        let name = self.name.as_str();
        let is_named = parsed.valid_uri_names().any(|found| found == name)
            || parsed.valid_dns_names().any(|found| found.eq_ignore_ascii_case(name));
        match is_named {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::NotValidForName.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Refused> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Refused> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
