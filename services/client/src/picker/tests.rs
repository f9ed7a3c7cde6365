//! Simulations in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fastrand::Rng;

use super::*;

fn address(n: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n as u8 + 1], 80))
}

fn picker(endpoints: usize, now: Instant) -> Picker<()> {
    let mut picker = Picker::new();
    let all: Vec<_> = (0..endpoints).map(address).collect();
    picker.replace(&all, now, |_| ());
    picker
}

fn pick(picker: &mut Picker<()>, now: Instant) -> usize {
    let (address, ()) = picker.pick(now, &[], true).expect("an endpoint");
    let SocketAddr::V4(address) = address else { unreachable!("all are IPv4") };
    usize::from(address.ip().octets()[3]) - 1
}

/// Picks `n` times, ending each request at once.
fn shares(picker: &mut Picker<()>, n: usize, now: Instant) -> Vec<usize> {
    let mut shares = vec![0; picker.len()];
    for _ in 0..n {
        let at = pick(picker, now);
        picker.end(address(at));
        shares[at] += 1;
    }
    shares
}

/// Endpoints that serve one request at a time, like a lane.
struct Fleet {
    /// Nanoseconds that each endpoint needs for a request.
    cost: Vec<u64>,
    free_at: Vec<u64>,
    handled: Vec<u64>,
}

/// Sends `requests` with exponential gaps from each of `lanes` pickers and returns the p99 in
/// nanoseconds and the requests of each endpoint. Endpoints report their speed if `reports`.
fn simulate(cost: &[u64], lanes: usize, gap: f64, reports: bool) -> (u64, Vec<u64>) {
    const REQUESTS: usize = 40_000;
    let (mut random, epoch) = (Rng::with_seed(7), Instant::now());
    let at = |nanos: u64| epoch + Duration::from_nanos(nanos);
    let mut pickers: Vec<_> = (0..lanes).map(|_| picker(cost.len(), epoch)).collect();
    for (lane, picker) in pickers.iter_mut().enumerate() {
        picker.rotate(lane);
    }
    let n = cost.len();
    let mut fleet = Fleet { cost: cost.to_vec(), free_at: vec![0; n], handled: vec![0; n] };
    let mut running = BinaryHeap::new();
    let (mut now, mut waits) = (0_u64, Vec::with_capacity(REQUESTS));
    for number in 0..REQUESTS {
        now += (-random.f64().max(1e-12).ln() * gap) as u64;
        while let Some(&Reverse((end, lane, endpoint))) = running.peek() {
            if end > now {
                break;
            }
            running.pop();
            let picker: &mut Picker<()> = &mut pickers[lane];
            picker.end(address(endpoint));
            picker.learn(address(endpoint), Handled::Well, at(end));
            if reports {
                picker.report(address(endpoint), 1e9 / fleet.cost[endpoint] as f64, at(end));
            }
        }
        let lane = number % lanes;
        let chosen = pick(&mut pickers[lane], at(now));
        let end = fleet.free_at[chosen].max(now) + fleet.cost[chosen];
        fleet.free_at[chosen] = end;
        fleet.handled[chosen] += 1;
        running.push(Reverse((end, lane, chosen)));
        waits.push(end - now);
    }
    waits.sort_unstable();
    (waits[REQUESTS * 99 / 100], fleet.handled)
}

#[test]
fn one_endpoint_at_half_speed_at_most_doubles_the_p99() {
    // Three endpoints, 1 ms per request, 40% used with equal speeds.
    let (equal, _) = simulate(&[1_000_000; 3], 4, 830_000.0, true);
    let (uneven, handled) = simulate(&[1_000_000, 1_000_000, 2_000_000], 4, 830_000.0, true);
    assert!(uneven <= 2 * equal, "{uneven} ns against {equal} ns");
    let (_, without) = simulate(&[1_000_000, 1_000_000, 2_000_000], 4, 830_000.0, false);
    assert!(handled[2] < without[2], "reports shift load: {handled:?} against {without:?}");
}

#[test]
fn equal_endpoints_get_equal_shares() {
    let (_, handled) = simulate(&[1_000_000; 3], 2, 830_000.0, true);
    assert!(handled.iter().all(|&n| n.abs_diff(40_000 / 3) < 400), "{handled:?}");
}

#[test]
fn requests_in_flight_come_first_and_ties_follow_the_reports() {
    let now = Instant::now();
    let mut picker = picker(3, now);
    let (first, second) = (pick(&mut picker, now), pick(&mut picker, now));
    let third = pick(&mut picker, now);
    assert_eq!(first + second + third, 3, "each endpoint has one request");
    (0..3).for_each(|n| picker.end(address(n)));
    [1000.0, 1000.0, 500.0].iter().enumerate().for_each(|(n, &speed)| {
        picker.report(address(n), speed, now);
    });
    let near = |shares: Vec<usize>, wanted: [usize; 3]| {
        shares.iter().zip(wanted).all(|(share, wanted)| share.abs_diff(wanted) <= 2)
    };
    assert!(near(shares(&mut picker, 1000, now), [400, 400, 200]));
    let later = now + REPORT_AGE;
    assert!(near(shares(&mut picker, 999, later), [333; 3]), "old reports do not count");
}

#[test]
fn a_wrong_report_starves_nobody() {
    let now = Instant::now();
    let mut picker = picker(2, now);
    picker.report(address(0), 1e9, now);
    picker.report(address(1), 1.0, now);
    assert!(shares(&mut picker, 1000, now)[1] >= 100);
}

#[test]
fn an_endpoint_that_fails_is_ejected_and_returns_slowly() {
    let now = Instant::now();
    let mut picker = picker(3, now);
    picker.learn(address(0), Handled::Unreachable, now);
    assert_eq!((picker.ejected(), shares(&mut picker, 100, now)[0]), (1, 0));
    let back = now + EJECTION;
    let first = shares(&mut picker, 1000, back)[0];
    assert!((20..100).contains(&first), "{first} of 1000 right after its return");
    let middle = shares(&mut picker, 1000, back + SLOW_START / 2)[0];
    assert!((150..250).contains(&middle), "{middle} of 1000 after half the slow start");
    assert_eq!(shares(&mut picker, 999, back + SLOW_START), [333; 3]);

    picker.learn(address(0), Handled::Unreachable, back);
    picker.pick(back + EJECTION, &[], true).expect("an endpoint");
    picker.learn(address(0), Handled::Unreachable, back + EJECTION);
    let still = back + EJECTION + EJECTION;
    assert_eq!(shares(&mut picker, 100, still)[0], 0, "the second ejection is longer");
}

#[test]
fn responses_with_errors_eject_at_most_half_of_the_endpoints() {
    let now = Instant::now();
    let mut picker = picker(4, now);
    for n in 0..4 {
        for _ in 0..TOLERATED {
            picker.learn(address(n), Handled::Badly, now);
        }
    }
    assert_eq!(picker.ejected(), 2);
    picker.learn(address(2), Handled::Well, now);
    for n in 2..4 {
        picker.learn(address(n), Handled::Unreachable, now);
    }
    assert_eq!(picker.ejected(), 4, "there is no point in connecting to closed ports");
    assert!(pick(&mut picker, now) < 4, "the one that returns first");
}

#[test]
fn a_retry_goes_to_another_endpoint_that_is_not_busy() {
    let now = Instant::now();
    let mut picker = picker(3, now);
    picker.learn(address(1), Handled::Busy { until: now + SLOW_START }, now);
    let (other, ()) = picker.pick(now, &[address(0)], false).expect("an endpoint");
    assert_eq!(other, address(2));
    assert_eq!(picker.pick(now, &[address(0), address(2)], false), None);
    assert!(picker.pick(now, &[address(0), address(2)], true).is_some());
}

#[test]
fn new_endpoints_start_slowly_and_keep_their_state() {
    let now = Instant::now();
    let mut picker = picker(2, now);
    picker.learn(address(0), Handled::Unreachable, now);
    picker.replace(&[address(0), address(1), address(2)], now, |_| ());
    assert_eq!((picker.len(), picker.ejected()), (3, 1));
    let shares = shares(&mut picker, 1000, now);
    assert!(shares[1] > 8 * shares[2] && shares[2] > 0, "{shares:?}");
    picker.replace(&[address(2)], now, |_| ());
    assert_eq!((picker.len(), picker.ejected()), (1, 0));
}

#[test]
fn both_formats_of_reports_are_read() {
    let text = "TEXT application_utilization=0.2500,rps_fractional=1200.000,eps=0.000,\
                named_metrics.expected_wait=0.001250,named_metrics.in_flight=7";
    let json = r#"JSON {"application_utilization":0.2500,"rps_fractional":1200.000,"eps":0.000,"named_metrics":{"in_flight":7}}"#;
    assert_eq!((speed(text.as_bytes()), speed(json.as_bytes())), (Some(4800.0), Some(4800.0)));
    for other in [
        "",
        "TEXT",
        "BIN x",
        "TEXT rps_fractional=3",
        "\u{7f}",
        "TEXT application_utilization=0.0200,rps_fractional=9",
        "TEXT application_utilization=0,rps_fractional=9",
        "TEXT application_utilization=nan,rps_fractional=9",
    ] {
        assert_eq!(speed(other.as_bytes()), None, "{other}");
    }
}
