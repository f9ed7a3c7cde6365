//! Converts slices to Envoy's format. The result does not depend on the order of the slices.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::slice::{Endpoint, Slice, State};
use crate::settings::GATEWAYS;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) healthy: usize,
    pub(crate) draining: usize,
    /// Unready endpoints in the file. They are used only if no endpoint is ready.
    pub(crate) unready: usize,
    /// Endpoints dropped from the file.
    pub(crate) left_out: usize,
}

pub(crate) fn assignment<'a>(
    cluster: &str,
    slices: impl IntoIterator<Item = &'a Slice>,
    limit: usize,
) -> (String, Counts) {
    let mut left_out = 0;
    let mut known: BTreeMap<(IpAddr, u16), Endpoint> = BTreeMap::new();
    for slice in slices {
        left_out += slice.left_out;
        for endpoint in &slice.endpoints {
            let place = (endpoint.address, endpoint.port);
            known.entry(place).and_modify(|it| merge(it, endpoint)).or_insert(endpoint.clone());
        }
    }
    left_out += keep_one_family(&mut known);
    let before = known.len();
    if cluster == GATEWAYS {
        // Envoy divides a rate limit by the number of hosts. A draining gateway has no clients any
        // more, so it needs no share.
        known.retain(|_, it| it.state != State::Draining);
    }
    left_out += before - known.len();
    let chosen = choose(known.values(), limit);
    left_out += known.len() - chosen.len();
    let count = |state| chosen.iter().filter(|it| it.state == state).count();
    let counts = Counts {
        healthy: count(State::Ready),
        draining: count(State::Draining),
        unready: count(State::Unready),
        left_out,
    };
    (text(cluster, &chosen), counts)
}

/// Merges the two states of an endpoint that is in two slices. One of them may be stale, because
/// slices are written one at a time. Termination is final, so the greatest state, `Draining`, wins.
fn merge(known: &mut Endpoint, other: &Endpoint) {
    known.state = known.state.max(other.state);
    known.health_port = known.health_port.min(other.health_port);
    if other.zone.is_some() && (known.zone.is_none() || other.zone < known.zone) {
        known.zone.clone_from(&other.zone);
    }
}

/// Drops the second address family of dual-stack pods, so that a pod does not count twice. Returns
/// the number of dropped endpoints.
fn keep_one_family(known: &mut BTreeMap<(IpAddr, u16), Endpoint>) -> usize {
    let before = known.len();
    if known.keys().any(|(address, _)| address.is_ipv4()) {
        known.retain(|(address, _), _| address.is_ipv4());
    }
    before - known.len()
}

/// Serving endpoints, or the unready endpoints if no endpoint is serving: Envoy's health checks are
/// more reliable than an API server that has lost all nodes.
fn choose<'a>(
    known: impl Iterator<Item = &'a Endpoint> + Clone,
    limit: usize,
) -> Vec<&'a Endpoint> {
    let of = |state| known.clone().filter(move |it| it.state == state);
    let mut chosen: Vec<_> = of(State::Ready).chain(of(State::Draining)).take(limit).collect();
    if chosen.is_empty() {
        chosen = of(State::Unready).take(limit).collect();
    }
    chosen.sort_by_key(|it| (it.address, it.port));
    chosen
}

fn text(cluster: &str, chosen: &[&Endpoint]) -> String {
    let mut zones: BTreeMap<Option<&str>, Vec<Value>> = BTreeMap::new();
    for endpoint in chosen {
        zones.entry(endpoint.zone.as_deref()).or_default().push(lb_endpoint(endpoint));
    }
    let locality = |(zone, endpoints): (Option<&str>, Vec<Value>)| match zone {
        // Weighting zones by endpoint count gives all endpoints the same weight if Envoy uses
        // zones.
        Some(zone) => json!({
            "locality": {"zone": zone},
            "load_balancing_weight": endpoints.len(),
            "lb_endpoints": endpoints,
        }),
        None => json!({"load_balancing_weight": endpoints.len(), "lb_endpoints": endpoints}),
    };
    let resource = json!({
        "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": cluster,
        "endpoints": zones.into_iter().map(locality).collect::<Vec<_>>(),
    });
    format!("{}\n", json!({"resources": [resource]}))
}

fn lb_endpoint(endpoint: &Endpoint) -> Value {
    let address = endpoint.address.to_string();
    json!({
        "endpoint": {
            "address": {"socket_address": {"address": address, "port_value": endpoint.port}},
            "health_check_config": {"port_value": endpoint.health_port},
        },
        "health_status": if endpoint.state == State::Draining { "DRAINING" } else { "HEALTHY" },
        "load_balancing_weight": 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(last: u8, state: State) -> Endpoint {
        let address = IpAddr::from([10, 0, 0, last]);
        let zone = (!last.is_multiple_of(3)).then(|| format!("zone-{}", last % 3).into());
        Endpoint { address, port: 80, health_port: 81, zone, state }
    }

    fn slice(endpoints: &[(u8, State)]) -> Slice {
        let endpoints = endpoints.iter().map(|&(last, state)| endpoint(last, state)).collect();
        Slice { endpoints, left_out: 0 }
    }

    fn listed(text: &str) -> Vec<(String, String)> {
        let response: Value = serde_json::from_str(text).expect("JSON");
        let localities = response["resources"][0]["endpoints"].as_array().expect("a list").clone();
        let all = localities.iter().flat_map(|it| it["lb_endpoints"].as_array().expect("a list"));
        let word = |value: &Value| value.as_str().expect("a string").to_owned();
        all.map(|it| {
            let address = word(&it["endpoint"]["address"]["socket_address"]["address"]);
            (address.replace("10.0.0.", ""), word(&it["health_status"]))
        })
        .collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|&(last, status)| (last.to_owned(), status.to_owned())).collect()
    }

    #[test]
    fn zones_are_localities_and_unready_endpoints_are_left_out() {
        use State::{Draining, Ready, Unready};
        let one = slice(&[(4, Ready), (2, Draining), (1, Ready), (5, Unready), (3, Ready)]);
        let (text, counts) = assignment("server", [&one], 10);
        let wanted = [("3", "HEALTHY"), ("1", "HEALTHY"), ("4", "HEALTHY"), ("2", "DRAINING")];
        assert_eq!(listed(&text), pairs(&wanted));
        assert_eq!(counts, Counts { healthy: 3, draining: 1, unready: 0, left_out: 1 });
        let response: Value = serde_json::from_str(&text).expect("JSON");
        let zone = &response["resources"][0]["endpoints"][1];
        assert_eq!(
            (&zone["locality"]["zone"], &zone["load_balancing_weight"]),
            (&json!("zone-1"), &json!(2))
        );
    }

    #[test]
    fn an_endpoint_of_two_slices_is_listed_once_and_its_end_wins() {
        use State::{Draining, Ready, Unready};
        let (one, two) = (slice(&[(1, Ready), (2, Unready)]), slice(&[(1, Draining), (2, Ready)]));
        for slices in [[&one, &two], [&two, &one]] {
            let (text, counts) = assignment("server", slices, 10);
            assert_eq!(listed(&text), pairs(&[("1", "DRAINING"), ("2", "HEALTHY")]));
            assert_eq!(counts, Counts { healthy: 1, draining: 1, unready: 0, left_out: 0 });
        }
    }

    #[test]
    fn where_nobody_serves_those_that_are_not_ready_are_listed() {
        use State::{Draining, Unready};
        let (text, counts) = assignment("server", [&slice(&[(1, Unready), (2, Unready)])], 10);
        assert_eq!(listed(&text), pairs(&[("1", "HEALTHY"), ("2", "HEALTHY")]));
        assert_eq!(counts.unready, 2);
        let (text, _) = assignment("server", [&slice(&[(1, Unready), (2, Draining)])], 10);
        assert_eq!(listed(&text), pairs(&[("2", "DRAINING")]));
    }

    #[test]
    fn gateways_that_end_have_no_share() {
        use State::{Draining, Ready};
        let one = slice(&[(1, Ready), (2, Draining), (4, Ready)]);
        let (text, counts) = assignment(GATEWAYS, [&one], 10);
        assert_eq!(listed(&text), pairs(&[("1", "HEALTHY"), ("4", "HEALTHY")]));
        assert_eq!((counts.draining, counts.left_out), (0, 1));
    }

    #[test]
    fn no_endpoints_are_an_empty_list() {
        let (text, counts) = assignment("server", [], 10);
        assert_eq!((listed(&text), counts), (Vec::new(), Counts::default()));
    }

    #[test]
    fn a_dual_stack_pod_counts_once() {
        let mut slice = slice(&[(1, State::Ready)]);
        let six = IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]);
        slice.endpoints.push(Endpoint { address: six, ..endpoint(1, State::Ready) });
        let (text, counts) = assignment("server", [&slice], 10);
        assert_eq!((listed(&text).len(), counts.left_out), (1, 1));
        slice.endpoints.remove(0);
        assert_eq!(assignment("server", [&slice], 10).1.healthy, 1);
    }

    #[test]
    fn the_limit_leaves_out_endpoints_that_end_first() {
        let one = slice(&[(1, State::Draining), (2, State::Ready), (4, State::Ready)]);
        let (text, counts) = assignment("server", [&one], 2);
        assert_eq!(listed(&text), pairs(&[("4", "HEALTHY"), ("2", "HEALTHY")]));
        assert_eq!(counts.left_out, 1);
    }

    fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed;
        move |below| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        }
    }

    #[test]
    fn the_order_of_slices_and_endpoints_does_not_matter() {
        for seed in 0..300 {
            let mut next = numbers(seed);
            let states = [State::Unready, State::Ready, State::Draining];
            let mut slices: Vec<_> = (0..1 + next(5))
                .map(|_| {
                    let random = |next: &mut dyn FnMut(u64) -> u64| {
                        (next(12) as u8, states[next(3) as usize])
                    };
                    let endpoints: Vec<_> = (0..next(6)).map(|_| random(&mut next)).collect();
                    slice(&endpoints)
                })
                .collect();
            let limit = 1 + next(12) as usize;
            let first = assignment("server", &slices, limit);
            for _ in 0..5 {
                shuffle(&mut slices, &mut next);
                slices.iter_mut().for_each(|it| shuffle(&mut it.endpoints, &mut next));
                assert_eq!(assignment("server", &slices, limit), first, "seed {seed}");
            }
        }
    }

    fn shuffle<T>(items: &mut [T], next: &mut impl FnMut(u64) -> u64) {
        for last in (1..items.len()).rev() {
            items.swap(last, next(last as u64 + 1) as usize);
        }
    }
}
