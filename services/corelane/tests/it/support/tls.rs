//! Test certificates and a client that trusts them.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use corelane::Tls;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, SanType, date_time_ymd,
};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, RootCertStore, StreamOwned,
};
use tempfile::TempDir;

use super::Client;

pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
    der: CertificateDer<'static>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        Authority::until(4000)
    }

    /// Valid until 1 January of `year`.
    pub(crate) fn until(year: i32) -> Authority {
        let mut params = CertificateParams::default();
        params.not_after = date_time_ymd(year, 1, 1);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "the tests' own issuer");
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an issuer");
        Authority { issuer, folder: TempDir::new().expect("a folder") }
    }

    /// A `localhost` certificate, valid until 1 January of `year`.
    pub(crate) fn issue_until(&self, year: i32) -> Pair {
        let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        params.not_after = date_time_ymd(year, 1, 1);
        self.sign(params)
    }

    pub(crate) fn issue_client(
        &self,
        identities: &[&str],
        edit: impl FnOnce(&mut CertificateParams),
    ) -> Pair {
        let mut params = CertificateParams::default();
        let names = identities.iter().map(|name| match name.contains(':') {
            true => SanType::URI((*name).try_into().expect("a URI")),
            false => SanType::DnsName((*name).try_into().expect("a name")),
        });
        params.subject_alt_names = names.collect();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.not_after = date_time_ymd(4000, 1, 1);
        edit(&mut params);
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            der: certificate.der().clone(),
        }
    }

    pub(crate) fn issue(&self) -> Pair {
        self.issue_until(4000)
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn certificate_file(&self) -> PathBuf {
        self.folder().join("tls.crt")
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        self.folder().join("tls.key")
    }

    pub(crate) fn install(&self, pair: &Pair) {
        self.put(&self.certificate_file(), &pair.certificate);
        self.put(&self.key_file(), &pair.key);
    }

    /// Atomic replacement by rename.
    pub(crate) fn put(&self, path: &Path, text: &str) {
        let new = self.folder().join("new");
        std::fs::write(&new, text).expect("write");
        std::fs::rename(new, path).expect("rename");
    }

    /// Polls the files continuously.
    pub(crate) fn settings(&self) -> Tls {
        let reload = Duration::from_millis(100);
        Tls { reload, ..Tls::new(self.certificate_file(), self.key_file()) }
    }

    /// Installs a new pair and returns settings for it.
    pub(crate) fn ready(&self) -> Tls {
        self.install(&self.issue());
        self.settings()
    }

    /// ALPN protocols, and optionally a single TLS version.
    pub(crate) fn client(&self, alpn: &[&str], version: Option<ProtocolVersion>) -> ClientConfig {
        self.client_with(alpn, version, None)
    }

    pub(crate) fn client_with(
        &self,
        alpn: &[&str],
        version: Option<ProtocolVersion>,
        pair: Option<&Pair>,
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("a root");
        let versions = match version {
            Some(ProtocolVersion::TLSv1_2) => vec![&TLS12],
            Some(ProtocolVersion::TLSv1_3) => vec![&TLS13],
            _ => vec![&TLS12, &TLS13],
        };
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&versions)
            .expect("versions")
            .with_root_certificates(roots);
        let mut config = match pair {
            None => config.with_no_client_auth(),
            Some(pair) => {
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("a key");
                config.with_client_auth_cert(vec![pair.der.clone()], key).expect("a pair")
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }

    /// The handshake starts with the first read or write.
    pub(crate) fn connect(&self, address: std::net::SocketAddr) -> TlsClient {
        connect(address, &Arc::new(self.client(&["http/1.1"], None)))
    }
}

pub(crate) type TlsClient = Client<StreamOwned<ClientConnection, TcpStream>>;

pub(crate) fn name() -> ServerName<'static> {
    ServerName::try_from("localhost").expect("a name")
}

pub(crate) fn connect(address: std::net::SocketAddr, config: &Arc<ClientConfig>) -> TlsClient {
    let socket = Client::connect(address).socket;
    let session = ClientConnection::new(Arc::clone(config), name()).expect("a session");
    Client::over(StreamOwned::new(session, socket))
}

impl TlsClient {
    pub(crate) fn sees(&self, pair: &Pair) -> bool {
        let shown = self.socket.conn.peer_certificates().expect("a handshake");
        shown.first() == Some(&pair.der)
    }

    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        self.socket.conn.protocol_version()
    }

    pub(crate) fn resumed(&self) -> bool {
        self.socket.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub(crate) fn refused(&mut self) -> String {
        let (session, socket) = (&mut self.socket.conn, &mut self.socket.sock);
        session.complete_io(socket).expect_err("a handshake that fails").to_string()
    }
}
