//! The text of a mix for the capacity model.
//!
//! A valid mix has shares that add up to 1 and finite times, and round-trips through its text.
//! Formulas and knee accept every mix.

use corelane::capacity::{Mix, Model, Replica};

pub(super) fn run(text: &str) {
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
