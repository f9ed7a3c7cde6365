//! Metrics of authentication.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use corelane::prometheus_client::collector::Collector;
use corelane::prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use corelane::prometheus_client::metrics::MetricType::{Counter, Gauge};

use super::{Auth, Reload};
use crate::per_lane::Count;

/// The result of an authentication.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    Accepted,
    Missing,
    Invalid,
    Ambiguous,
}

impl Outcome {
    const ALL: [(Outcome, &'static str); 4] = [
        (Outcome::Accepted, "accepted"),
        (Outcome::Missing, "missing"),
        (Outcome::Invalid, "invalid"),
        (Outcome::Ambiguous, "ambiguous"),
    ];
}

/// The results of one lane.
#[derive(Debug, Default)]
pub(super) struct Attempts([Count; Outcome::ALL.len()]);

impl Attempts {
    pub(super) fn note(&self, outcome: Outcome) {
        self.0[outcome as usize].add_one();
    }
}

/// The metrics of authentication.
#[derive(Debug)]
pub(crate) struct AuthCollector(pub(crate) Arc<Auth>);

impl Collector for AuthCollector {
    fn encode(&self, mut out: DescriptorEncoder) -> fmt::Result {
        let help = "Requests that need a token, by result";
        let mut family = out.encode_descriptor("corelane_auth_attempts", help, None, Counter)?;
        for (outcome, name) in Outcome::ALL {
            let n = self.0.attempts.sum(|lane| lane.0[outcome as usize].get());
            family
                .encode_family(&[("result", name)])?
                .encode_counter::<NoLabelSet, _, u64>(&n, None)?;
        }
        let Some(source) = &self.0.source else { return Ok(()) };
        let help = "Tokens with write access";
        out.encode_descriptor("corelane_auth_tokens", help, None, Gauge)?
            .encode_gauge(&(self.0.current().len() as u64))?;
        let help = "Reloads of a changed token file; after a failure the old tokens stay in use";
        let mut family = out.encode_descriptor("corelane_auth_reloads", help, None, Counter)?;
        for (reload, name) in Reload::ALL {
            let n = source.reloads[reload as usize].load(Relaxed);
            family
                .encode_family(&[("result", name)])?
                .encode_counter::<NoLabelSet, _, u64>(&n, None)?;
        }
        let help = "1 while the tokens in the file are in use, 0 after a failed reload";
        out.encode_descriptor("corelane_auth_up_to_date", help, None, Gauge)?
            .encode_gauge(&u64::from(source.up_to_date.load(Relaxed)))
    }
}
