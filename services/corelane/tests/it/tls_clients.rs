//! Client certificates: rejection, CA rotation, resumption.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::addresses::describe;
use crate::support::tls::{Authority, Pair, TlsClient, connect};
use crate::support::{Running, builder};
use crate::tls::handshakes;
use corelane::{Error, Server, Tls, TlsClients};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, date_time_ymd};
use rstest::rstest;
use rustls::{ClientConfig, ProtocolVersion};

const GATEWAY: &str = "spiffe://cluster.local/ns/edge/sa/gateway";

struct Site {
    servers: Authority,
    settings: Tls,
}

impl Site {
    fn new(ca: &str) -> Site {
        let servers = Authority::new();
        let path = servers.folder().join("ca.crt");
        servers.put(&path, ca);
        let allow = [GATEWAY, "Probe.edge.svc"].map(|name| name.parse().expect("an identity"));
        let clients = Some(TlsClients { ca: path, allow: allow.into() });
        let settings = Tls { clients, ..servers.ready() };
        Site { servers, settings }
    }

    fn start(&self) -> Running {
        Running::start(builder().tls(self.settings.clone()), describe)
    }

    fn trust(&self, ca: &str) {
        self.servers.put(&self.settings.clients.as_ref().expect("clients").ca, ca);
    }

    fn client(&self, version: ProtocolVersion, pair: Option<&Pair>) -> Arc<ClientConfig> {
        Arc::new(self.servers.client_with(&["http/1.1"], Some(version), pair))
    }
}

fn wait_for_reloads(server: &Running, result: &str, n: f64) {
    server.wait_for_metric(&format!("corelane_tls_reloads_total{{result=\"{result}\"}}"), n);
}

/// Data that a rejected client reads.
fn refusal(mut client: TlsClient) -> String {
    client.socket.read(&mut [0]).expect_err("refused").to_string()
}

fn gateway(server: &Running, config: &Arc<ClientConfig>) -> TlsClient {
    let mut client = connect(server.address, config);
    assert_is(&mut client, GATEWAY);
    client
}

fn assert_is(client: &mut TlsClient, identity: &str) {
    let text = client.get("/").text();
    assert!(text.contains(&format!("client: Some(ClientIdentity({identity:?}))")), "{text}");
}

#[rstest]
#[case(ProtocolVersion::TLSv1_2)]
#[case(ProtocolVersion::TLSv1_3)]
fn only_an_allowed_identity_of_the_ca_is_let_in(#[case] version: ProtocolVersion) {
    let (ca, stranger) = (Authority::new(), Authority::new());
    let site = Site::new(&ca.pem());
    let server = site.start();
    let similar = "spiffe://cluster.local/ns/edge/sa/gateway2";
    let expire = |params: &mut CertificateParams| params.not_after = date_time_ymd(2001, 1, 1);
    let for_servers = |params: &mut CertificateParams| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    };
    let cases = [
        (None, "client_missing"),
        (Some(stranger.issue_client(&[GATEWAY], |_| ())), "client_unknown"),
        (Some(ca.issue_client(&[GATEWAY], expire)), "client_expired"),
        (Some(ca.issue_client(&[GATEWAY], for_servers)), "client_invalid"),
        (Some(ca.issue_client(&[similar, "*.edge.svc", "edge.svc"], |_| ())), "client_not_allowed"),
        (Some(ca.issue_client(&[], |_| ())), "client_not_allowed"),
    ];
    for (pair, result) in &cases {
        let before = handshakes(&server, result);
        let heard = refusal(connect(server.address, &site.client(version, pair.as_ref())));
        assert!(heard.contains("fatal alert"), "{result}: {heard}");
        server.wait_until(result, || handshakes(&server, result) == before + 1.0);
    }
    assert_eq!(server.refused("handshake"), cases.len() as f64);
    assert_eq!((handshakes(&server, "failure"), handshakes(&server, "success")), (0.0, 0.0));

    for (names, identity) in [
        (&["other.svc", GATEWAY][..], GATEWAY),
        (&["PROBE.edge.svc"], "probe.edge.svc"),
        (&["probe.edge.svc", GATEWAY], GATEWAY),
    ] {
        let pair = ca.issue_client(names, |_| ());
        assert_is(&mut connect(server.address, &site.client(version, Some(&pair))), identity);
    }
}

#[rstest]
#[case(ProtocolVersion::TLSv1_2)]
#[case(ProtocolVersion::TLSv1_3)]
fn a_ca_is_replaced_in_three_steps_without_harm(#[case] version: ProtocolVersion) {
    let (old, new) = (Authority::new(), Authority::new());
    let site = Site::new(&old.pem());
    let server = site.start();
    let as_client_of = |ca: &Authority| {
        let pair = ca.issue_client(&[GATEWAY], |_| ());
        site.client(version, Some(&pair))
    };
    let (with_old, with_new) = (as_client_of(&old), as_client_of(&new));
    let mut open = vec![gateway(&server, &with_old)];
    assert!(gateway(&server, &with_old).resumed());
    let heard = refusal(connect(server.address, &with_new));
    assert!(heard.contains("fatal alert"), "{heard}");

    site.trust(&(old.pem() + &new.pem()));
    wait_for_reloads(&server, "success", 1.0);
    for (config, resumes) in [(&with_old, false), (&with_old, true), (&with_new, false)] {
        let client = gateway(&server, config);
        assert_eq!(client.resumed(), resumes, "tickets are those of one set of CAs");
        open.push(client);
    }
    // The CA is the same, so sessions can be resumed.
    site.servers.install(&site.servers.issue());
    server.wait_until("reloaded", || {
        let client = gateway(&server, &with_old);
        assert!(client.resumed());
        server.metric("corelane_tls_reloads_total{result=\"success\"}") >= 2.0
    });
    server.wait_for_metric("corelane_tls_certificate_up_to_date", 1.0);
    let reloads = server.metric("corelane_tls_reloads_total{result=\"success\"}");

    site.trust(&new.pem());
    wait_for_reloads(&server, "success", reloads + 1.0);
    let unknown = handshakes(&server, "client_unknown");
    for n in 1..=3 {
        let heard = refusal(connect(server.address, &with_old));
        assert!(heard.contains("fatal alert"), "{heard}");
        server.wait_until("counted", || {
            handshakes(&server, "client_unknown") == unknown + f64::from(n)
        });
    }
    gateway(&server, &with_new);
    assert!(gateway(&server, &with_new).resumed());
    for client in &mut open {
        assert_is(client, GATEWAY);
    }
}

#[rstest]
#[case(ProtocolVersion::TLSv1_2)]
#[case(ProtocolVersion::TLSv1_3)]
fn a_session_does_not_outlive_the_certificate_of_its_client(#[case] version: ProtocolVersion) {
    let ca = Authority::new();
    let site = Site::new(&ca.pem());
    let server = site.start();
    // The certificate is valid just long enough for one connection.
    let mut expired = 0.0;
    let config = (1..=6).find_map(|doublings| {
        let end = SystemTime::now() + Duration::from_secs(1 << doublings);
        let pair = ca.issue_client(&[GATEWAY], |params| params.not_after = end.into());
        let config = site.client(version, Some(&pair));
        let admitted = is_admitted(&mut connect(server.address, &config));
        expired += if admitted { 0.0 } else { 1.0 };
        admitted.then_some(config)
    });
    let config = config.expect("a connection");
    server.wait_until("refused", || {
        let mut client = connect(server.address, &config);
        let admitted = is_admitted(&mut client);
        assert!(client.resumed(), "also when it is refused");
        !admitted
    });
    server.wait_until("counted", || handshakes(&server, "client_expired") == expired + 1.0);
}

fn is_admitted(client: &mut TlsClient) -> bool {
    let sent = client.socket.write_all(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n");
    sent.is_ok() && client.socket.read(&mut [0; 4096]).is_ok_and(|n| n > 0)
}

#[test]
fn an_unusable_ca_is_refused_by_name_and_the_old_one_stays() {
    let ca = Authority::new();
    let site = Site::new(&ca.pem());
    let server = site.start();
    let up_to_date = "corelane_tls_certificate_up_to_date";
    let pair = ca.issue_client(&[GATEWAY], |_| ());
    let config = site.client(ProtocolVersion::TLSv1_3, Some(&pair));
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
    for (n, (text, problem)) in (1..).zip([
        (String::new(), "ca.crt contains no PEM certificate"),
        (broken, "ca.crt contains an invalid certificate"),
        ("x".repeat((1 << 20) + 1), "ca.crt is larger than 1 MiB"),
    ]) {
        site.trust(&text);
        let error = site.settings.check().expect_err("refused");
        assert!(
            matches!(error, Error::Tls { .. }) && error.to_string().contains(problem),
            "{error}"
        );
        let error = Server::builder().tls(site.settings.clone()).build().expect_err("refused");
        assert!(error.to_string().contains(problem), "{error}");
        wait_for_reloads(&server, "failure", f64::from(n));
        server.wait_for_metric(up_to_date, 0.0);
        gateway(&server, &config);
    }
    site.trust(&Authority::until(2001).pem());
    wait_for_reloads(&server, "failure", 4.0);
    gateway(&server, &config);

    let soon = Authority::until(3000);
    site.trust(&(ca.pem() + &soon.pem()));
    server.wait_for_metric(up_to_date, 1.0);
    let not_after = server.metric("corelane_tls_certificate_not_after_seconds");
    assert_eq!(not_after, 32_503_680_000.0, "the first to expire is a CA");

    let nobody = TlsClients { allow: vec![], ..site.settings.clients.clone().expect("clients") };
    let tls = Tls { clients: Some(nobody), ..site.settings.clone() };
    let error = Server::builder().tls(tls).build().expect_err("refused").to_string();
    assert!(error.contains("tls.clients.allow"), "{error}");
}

#[test]
fn a_ca_that_has_expired_lets_nobody_in() {
    let (expired, valid) = (Authority::until(2001), Authority::new());
    let site = Site::new(&(expired.pem() + &valid.pem()));
    let server = site.start();
    let pair = expired.issue_client(&[GATEWAY], |_| ());
    let config = site.client(ProtocolVersion::TLSv1_3, Some(&pair));
    let heard = refusal(connect(server.address, &config));
    assert!(heard.contains("fatal alert"), "{heard}");
    server.wait_until("counted", || handshakes(&server, "client_unknown") == 1.0);
    let pair = valid.issue_client(&[GATEWAY], |_| ());
    gateway(&server, &site.client(ProtocolVersion::TLSv1_3, Some(&pair)));
}
