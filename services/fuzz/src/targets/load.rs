//! Load: reports to the gateway, and the capacity model's mix.

use corelane::fuzzing::load_reports;
use corelane_cli::model::{Mix, Model, Replica};
use serde_json::Value;

use super::{Target, text};

/// Load reports computed from arbitrary counters. Both forms contain the same values, within the
/// bounds that Envoy needs.
///
/// The input is a sequence of samples. Each sample consists of seven little-endian 8-byte numbers.
pub(super) const LOAD_REPORT: Target = Target {
    name: "load_report",
    run: load_report,
    seeds: &[(
        "steady",
        b"\0\xe1\xf5\x05\0\0\0\0\x80\xf0\xfa\x02\0\0\0\0\x03\0\0\0\0\0\0\0\n\0\0\0\
            \0\0\0\0\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0@KL\0\0\0\0\0\
            \0\xe1\xf5\x05\0\0\0\0\0\xe1\xf5\x05\0\0\0\0\x05\0\0\0\0\0\0\0\x14\0\0\0\
            \0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0@KL\0\0\0\0\0\
            \0\xe1\xf5\x05\0\0\0\0\x80\xd1\xf0\x08\0\0\0\0\x07\0\0\0\0\0\0\0\x1e\0\0\0\
            \0\0\0\0\x03\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0@KL\0\0\0\0\0\
            \0\xe1\xf5\x05\0\0\0\0\0\xc2\xeb\x0b\0\0\0\0\x09\0\0\0\0\0\0\0(\0\0\0\
            \0\0\0\0\x04\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0@KL\0\0\0\0\0\
            \0\xe1\xf5\x05\0\0\0\0\x80\xb2\xe6\x0e\0\0\0\0\x0b\0\0\0\0\0\0\x002\0\0\0\
            \0\0\0\0\x05\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0@KL\0\0\0\0\0",
    )],
};

fn load_report(bytes: &[u8]) {
    let (numbers, _) = bytes.as_chunks::<8>();
    let (samples, _) = numbers.as_chunks::<7>();
    let samples = samples.iter().map(|sample| sample.map(u64::from_le_bytes));
    for [text, json] in load_reports(samples) {
        let text = text.strip_prefix("TEXT ").expect("the prefix");
        let json: Value = json.strip_prefix("JSON ").expect("the prefix").parse().expect("JSON");
        let mut keys = 0;
        for pair in text.split(',') {
            let (key, value) = pair.split_once('=').expect("key and value");
            let value: f64 = value.parse().expect("a number");
            let pointer = format!("/{}", key.replace('.', "/"));
            let other = json.pointer(&pointer).and_then(Value::as_f64).expect("the same key");
            // serde_json may be off by the last bit.
            assert!((other - value).abs() <= f64::EPSILON * value, "{key}: {value} and {other}");
            assert!(value.is_finite() && value >= 0.0, "{pair}");
            match key {
                "application_utilization" => assert!((0.02..=1.0).contains(&value), "{pair}"),
                "rps_fractional" => assert!(value > 0.0, "{pair}"),
                _ => {}
            }
            keys += 1;
        }
        assert_eq!(keys, 5, "{text}");
    }
}

/// The text of a mix for the capacity model.
///
/// A valid mix has finite times and shares that add up to 1, and is unchanged after writing and
/// parsing. The formulas and the knee accept any mix.
pub(super) const CAPACITY_MIX: Target = Target {
    name: "capacity_mix",
    run: |input| text(input, capacity_mix),
    seeds: &[
        ("extremes", b"a=100%:0.000001ns:0.5ns"),
        ("two_kinds", b"GET /hello=90%, GET /work=10%:7ms"),
        (
            "waiting",
            b"GET /a=b=25%:1.5ms:500us+2ms:1s\n\
            POST /projects=74.95%+3ms,x=0.05%",
        ),
    ],
};

fn capacity_mix(text: &str) {
    let Ok(mix) = text.parse::<Mix>() else { return };
    let shares: f64 = mix.kinds().iter().map(|kind| kind.share).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    let written = mix.to_string();
    let again: Mix = written.parse().unwrap_or_else(|error| panic!("{written}: {error}"));
    assert_eq!(again.kinds().len(), mix.kinds().len());
    let same = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.max(b);
    for (one, other) in mix.kinds().iter().zip(again.kinds()) {
        assert_eq!(one.name, other.name);
        assert!(same(one.share, other.share), "{one:?} {other:?}");
        for (one, other) in [(one.lane, other.lane), (one.wait, other.wait)] {
            assert!(one.mean().is_finite() && one.deviation().is_finite(), "{one:?}");
            assert!(same(one.mean(), other.mean()) && same(one.deviation(), other.deviation()));
        }
    }
    let model = Model::new(mix, Replica::default()).expect("a request costs its lane something");
    let knee = model.knee().rate;
    assert!(knee.is_finite() && knee > 0.0, "{knee}");
    let estimated = model.estimate(0.7 * knee);
    assert!(estimated.utilization < 1.0 && estimated.wait.is_finite(), "{estimated:?}");
}
