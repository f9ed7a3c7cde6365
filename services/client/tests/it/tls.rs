//! TLS with identities on both sides, and its rotation.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use corelane::TlsClients;
use corelane::testing::TestServer;
use corelane_client::{ErrorKind, Settings, Tls};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use tempfile::TempDir;

use crate::support::{Lab, builder, eventually, serve, settings, text};

const ORDERS: &str = "spiffe://cluster.local/ns/shop/sa/orders";
const SHOP: &str = "spiffe://cluster.local/ns/shop/sa/shop";

/// The files of a CA, a server and a client.
struct Files(TempDir);

impl Files {
    fn new() -> Files {
        let files = Files(tempfile::tempdir().unwrap());
        files.renew(ORDERS);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a new CA and certificates for a server with this identity.
    fn renew(&self, server: &str) {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        for (name, identity) in [("server", server), ("client", SHOP)] {
            let mut params = CertificateParams::default();
            params.subject_alt_names = vec![SanType::URI(identity.try_into().unwrap())];
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            fs::write(self.path(&format!("{name}.crt")), certificate.pem()).unwrap();
            fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        fs::write(self.path("ca.crt"), ca.pem()).unwrap();
    }

    fn server(&self) -> TestServer {
        let allow = vec![SHOP.parse().unwrap()];
        let clients = Some(TlsClients { ca: self.path("ca.crt"), allow });
        let tls = corelane::Tls::new(self.path("server.crt"), self.path("server.key"));
        let tls = corelane::Tls { reload: Duration::from_millis(100), clients, ..tls };
        serve(builder().tls(tls), |_| async {
            let client = corelane::connection().and_then(|it| it.tls.as_ref()?.client.clone());
            text(client.map_or("nobody".to_owned(), |client| client.to_string()))
        })
    }

    fn settings(&self, scheme: &str, server: &TestServer) -> Settings {
        let tls = Tls {
            identity: Some((self.path("client.crt"), self.path("client.key"))),
            reload: Duration::from_millis(100),
            ..Tls::new(self.path("ca.crt"), ORDERS.parse().unwrap())
        };
        // Each call is a new connection.
        let idle = Duration::ZERO;
        Settings { tls: Some(tls), idle, ..settings(scheme, &[server.address()]) }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn both_sides_prove_their_identity() {
    let files = Files::new();
    let server = files.server();
    for scheme in ["https", "h2"] {
        let lab = Lab::new(files.settings(scheme, &server));
        assert_eq!(lab.client.get("/").await.unwrap().body(), SHOP, "{scheme}");
    }
    let mut anonymous = files.settings("https", &server);
    anonymous.tls.as_mut().unwrap().identity = None;
    Lab::new(anonymous).client.get("/").await.unwrap_err();
    let mut other = files.settings("https", &server);
    other.tls.as_mut().unwrap().name = SHOP.parse().unwrap();
    let error = Lab::new(other).client.get("/").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn new_files_are_used_without_a_restart() {
    let files = Files::new();
    let server = files.server();
    let lab = Lab::new(files.settings("https", &server));
    lab.client.get("/").await.unwrap();
    // No side trusts the other's old certificate.
    files.renew(ORDERS);
    eventually("renewed on both sides", async || lab.client.get("/").await.ok()).await;
    // Certificates of another service are not accepted, whoever issued them.
    files.renew(SHOP);
    eventually("rejected", async || lab.client.get("/").await.err()).await;
}
