//! Makes busy lanes shed active connections, as the [policy](super::policy) decides. Runs on the
//! admin thread.

use std::future::pending;
use std::time::Instant;

use super::policy::{Policy, Sample};
use super::transit::is_open;
use crate::busy::busy;
use crate::settings::Moving;
use crate::shared::Shared;

/// Moves connections while the server serves.
pub(crate) async fn run(shared: &Shared, moving: Moving) {
    let mut policy = Policy::new(shared.lanes.len());
    while moving == Moving::Active && is_open(shared) {
        if let Some((lane, step)) = policy.tick(Instant::now(), &samples(shared)) {
            shared.lanes[lane].mailbox.tell(step);
        }
        if let Some(outcome) = policy.take_outcome() {
            shared.plans.end(outcome);
        }
        tokio::time::sleep(policy.pause()).await;
    }
    pending().await
}

fn samples(shared: &Shared) -> Vec<Sample> {
    let now = Instant::now();
    let each = shared.lanes.iter().map(|lane| Sample {
        busy: busy(lane, now),
        requests: lane.metrics.finished.get(),
        active: lane.metrics.active.get(),
        shed: lane.mailbox.spent(),
        unresponsive: lane.mailbox.is_unheard(),
    });
    each.collect()
}
