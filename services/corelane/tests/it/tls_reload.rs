//! Server certificates: validation at startup and reloading.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use crate::support::tls::{Authority, Pair, connect};
use crate::support::{Handlers, Running, builder};
use corelane::{Error, Server, Tls};

fn reloads(server: &Running, result: &str) -> f64 {
    server.metric(&format!("corelane_tls_reloads_total{{result=\"{result}\"}}"))
}

fn shows(server: &Running, authority: &Authority, pair: &Pair) -> bool {
    let mut client = authority.connect(server.address);
    assert_eq!(client.get("/hello").status, 200);
    client.sees(pair)
}

fn start(authority: &Authority, pair: &Pair) -> Running {
    authority.install(pair);
    Running::start(builder().tls(authority.settings()), Handlers::new().factory())
}

#[test]
fn a_new_certificate_is_for_new_connections() {
    let authority = Authority::new();
    let (old, new) = (authority.issue_until(3000), authority.issue_until(3001));
    let server = start(&authority, &old);
    let not_after = || server.metric("corelane_tls_certificate_not_after_seconds");
    let config = Arc::new(authority.client(&["http/1.1"], None));
    let mut kept = connect(server.address, &config);
    assert_eq!(kept.get("/hello").status, 200);
    assert_eq!(not_after(), 32_503_680_000.0, "the first day of the year 3000");

    authority.install(&new);
    server.wait_until("reloaded", || reloads(&server, "success") == 1.0);
    assert!(shows(&server, &authority, &new));
    assert_eq!(not_after(), 32_535_216_000.0, "the first day of the year 3001");
    assert_eq!(kept.get("/hello").status, 200, "the old connection lives on");
    assert!(kept.sees(&old));
    let mut again = connect(server.address, &config);
    assert_eq!(again.get("/hello").status, 200);
    assert!(again.resumed(), "a session outlives the certificate that it began with");
}

#[test]
fn a_kubernetes_volume_is_followed() {
    let authority = Authority::new();
    let (old, new) = (authority.issue(), authority.issue());
    let folder = authority.folder();
    // Publishes files as the kubelet does, with a directory per version and an atomic swap of the
    // `..data` symlink.
    let publish = |version: &str, pair: &Pair| {
        let made = folder.join(version);
        fs::create_dir(&made).expect("a folder");
        fs::write(made.join("tls.crt"), &pair.certificate).expect("write");
        fs::write(made.join("tls.key"), &pair.key).expect("write");
        symlink(version, folder.join("..data_tmp")).expect("a link");
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).expect("rename");
    };
    publish("..1", &old);
    symlink("..data/tls.crt", authority.certificate_file()).expect("a link");
    symlink("..data/tls.key", authority.key_file()).expect("a link");
    let server = Running::start(builder().tls(authority.settings()), Handlers::new().factory());
    assert!(shows(&server, &authority, &old));

    publish("..2", &new);
    server.wait_until("reloaded", || reloads(&server, "success") == 1.0);
    assert!(shows(&server, &authority, &new));
}

#[test]
fn a_change_that_leaves_size_and_time_alone_is_seen() {
    let authority = Authority::new();
    let old = authority.issue();
    let new = std::iter::repeat_with(|| authority.issue())
        .find(|new| new.certificate.len() == old.certificate.len())
        .expect("signatures vary little in length");
    let server = start(&authority, &old);
    let stamp = |path| fs::metadata(path).and_then(|meta| meta.modified()).expect("a time");
    let times = [stamp(authority.certificate_file()), stamp(authority.key_file())];
    authority.install(&new);
    for (path, time) in [authority.certificate_file(), authority.key_file()].iter().zip(times) {
        let file = fs::File::options().write(true).open(path).expect("open");
        file.set_modified(time).expect("a time");
    }
    server.wait_until("reloaded", || shows(&server, &authority, &new));
}

#[test]
fn a_bad_certificate_is_counted_and_the_old_one_stays() {
    let authority = Authority::new();
    let old = authority.issue();
    let server = start(&authority, &old);
    let up_to_date = || server.metric("corelane_tls_certificate_up_to_date");
    assert_eq!(up_to_date(), 1.0);
    let expired = authority.issue_until(2001);
    let bad: [&dyn Fn(); 4] = [
        &|| authority.put(&authority.certificate_file(), "not a certificate"),
        &|| fs::remove_file(authority.certificate_file()).expect("remove"),
        &|| authority.put(&authority.certificate_file(), &authority.issue().certificate),
        &|| authority.install(&expired),
    ];
    // The last case writes two files, which are not read atomically.
    for (failures, spoil) in (1..).zip(bad) {
        spoil();
        let failures = f64::from(failures);
        server.wait_until("refused", || reloads(&server, "failure") >= failures);
        server.wait_until("out of date", || up_to_date() == 0.0);
        assert!(shows(&server, &authority, &old));
    }

    let new = authority.issue();
    authority.install(&new);
    server.wait_until("reloaded", || reloads(&server, "success") == 1.0);
    server.wait_until("up to date", || up_to_date() == 1.0);
    assert!(shows(&server, &authority, &new));
}

#[test]
fn files_that_are_replaced_one_after_the_other_end_in_the_right_pair() {
    let authority = Authority::new();
    let (first, second, third) = (authority.issue(), authority.issue(), authority.issue());
    let server = start(&authority, &first);

    authority.put(&authority.certificate_file(), &second.certificate);
    server.wait_until("refused", || reloads(&server, "failure") == 1.0);
    assert!(shows(&server, &authority, &first));
    authority.put(&authority.key_file(), &second.key);
    server.wait_until("reloaded", || reloads(&server, "success") == 1.0);
    assert!(shows(&server, &authority, &second));

    authority.put(&authority.key_file(), &third.key);
    server.wait_until("refused", || reloads(&server, "failure") == 2.0);
    assert!(shows(&server, &authority, &second));
    authority.put(&authority.certificate_file(), &third.certificate);
    server.wait_until("reloaded", || reloads(&server, "success") == 2.0);
    assert!(shows(&server, &authority, &third));
}

#[test]
fn a_start_with_unusable_files_is_refused_by_name() {
    let authority = Authority::new();
    let good = authority.issue();
    let refusal = |certificate: Option<&str>, key: Option<&str>| {
        for (path, text) in
            [(authority.certificate_file(), certificate), (authority.key_file(), key)]
        {
            match text {
                Some(text) => fs::write(path, text).expect("write"),
                None => drop(fs::remove_file(path)),
            }
        }
        let error = Server::builder().tls(authority.settings()).build().expect_err("refused");
        assert!(error.is_setting() && matches!(error, Error::Tls { .. }), "{error}");
        assert_eq!(
            authority.settings().check().expect_err("refused").to_string(),
            error.to_string()
        );
        error.to_string()
    };
    let (certificate, key) = (Some(good.certificate.as_str()), Some(good.key.as_str()));
    let other = authority.issue().key;
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let long = "x".repeat((1 << 20) + 1);
    let cases = [
        (None, key, "tls.crt cannot be read: No such file"),
        (certificate, None, "tls.key cannot be read: No such file"),
        (key, key, "tls.crt contains no PEM certificate"),
        (certificate, certificate, "tls.key contains no PEM private key"),
        (Some(broken), key, "tls.crt contains an invalid certificate"),
        (certificate, Some(other.as_str()), "tls.key does not match the certificate in"),
        (Some(long.as_str()), key, "tls.crt is larger than 1 MiB"),
    ];
    for (certificate, key, problem) in cases {
        let refusal = refusal(certificate, key);
        assert!(refusal.contains(problem), "{refusal}");
    }
}

#[test]
fn an_expired_certificate_is_no_reason_not_to_start() {
    let authority = Authority::new();
    authority.install(&authority.issue_until(2001));
    builder().tls(authority.settings()).build().expect("a server with a warning");
}

#[test]
fn the_interval_has_bounds() {
    let authority = Authority::new();
    for reload in [Duration::from_millis(99), Duration::from_secs(86_401)] {
        let tls = Tls { reload, ..authority.ready() };
        let error = builder().tls(tls).build().expect_err("out of bounds");
        assert!(error.is_setting() && error.to_string().contains("tls.reload"), "{error}");
    }
}
