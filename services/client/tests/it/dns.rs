//! Endpoints from a real DNS server.

use std::net::Ipv4Addr;
use std::time::Duration;

use corelane_client::{ErrorKind, Settings};

use crate::support::{Dns, Lab, PATIENCE, builder, eventually, serve, text};

const LOCAL: Ipv4Addr = Ipv4Addr::LOCALHOST;

fn from_dns(dns: &Dns, target: &str) -> Settings {
    let refresh = Duration::from_millis(20)..=Duration::from_millis(50);
    let settings = Settings::new(target.parse().unwrap());
    Settings { timeout: PATIENCE, refresh, name_servers: vec![dns.address], ..settings }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn addresses_and_services_are_found_and_followed() {
    let dns = Dns::start();
    let servers = ["a", "b"].map(|name| serve(builder(), move |_| async move { text(name) }));
    let [first, second] = servers.each_ref().map(|server| server.address().port());
    dns.set_hosts("orders.shop", &[LOCAL]);
    dns.set_hosts("pod-1.orders.shop", &[LOCAL]);
    dns.set_service("_http._tcp.orders.shop", &[(first, "pod-1.orders.shop")]);
    let by_name = Lab::new(from_dns(&dns, &format!("http://orders.shop:{first}")));
    let by_service = Lab::new(from_dns(&dns, "http://_http._tcp.orders.shop"));
    assert_eq!(by_name.client.get("/").await.unwrap().body(), "a");
    assert_eq!(by_service.client.get("/").await.unwrap().body(), "a");
    dns.set_service("_http._tcp.orders.shop", &[(second, "pod-1.orders.shop")]);
    eventually("moved", async || {
        let reply = by_service.client.get("/").await.unwrap();
        (reply.body() == "b").then_some(())
    })
    .await;
    eventually("closed", async || (by_service.single("connections") == 1).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn endpoints_stay_while_dns_fails() {
    let dns = Dns::start();
    let server = serve(builder(), |_| async { text("hello") });
    dns.set_hosts("orders.shop", &[LOCAL]);
    let target = format!("http://orders.shop:{}", server.address().port());
    let lab = Lab::new(from_dns(&dns, &target));
    lab.client.get("/").await.unwrap();
    dns.set_failing(true);
    let failures = "resolutions_total{callee=\"callee\",result=\"failure\"}";
    eventually("failing", async || (lab.metric(failures) >= 3).then_some(())).await;
    lab.client.get("/").await.unwrap();
    assert_eq!(lab.single("endpoints"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_name_without_records_is_an_error_until_it_has_some() {
    let dns = Dns::start();
    let server = serve(builder(), |_| async { text("hello") });
    let target = format!("http://orders.shop:{}", server.address().port());
    let lab = Lab::new(from_dns(&dns, &target));
    let error = lab.client.get("/").await.unwrap_err();
    assert_eq!((error.kind(), lab.outcome("unresolved")), (ErrorKind::Unresolved, 1));
    dns.set_hosts("orders.shop", &[LOCAL]);
    eventually("found", async || lab.client.get("/").await.ok()).await;
}
