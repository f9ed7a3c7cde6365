//! Load reports from any counters: both formats have the same values, within the bounds that Envoy
//! requires.
//!
//! The input is a sequence of samples of 7 numbers of 8 bytes each, little-endian.

use corelane::fuzzing::load_reports;
use serde_json::Value;

pub(super) fn run(bytes: &[u8]) {
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
