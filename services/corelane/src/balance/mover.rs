//! Moves active connections away from busy lanes as the [policy](super::policy) decides. Runs on
//! the admin thread.

use std::future::pending;
use std::sync::Arc;
use std::time::Instant;

use super::mailbox::Mailbox;
use super::moves::is_open;
use super::policy::{Policy, Sample};
use super::settings::Moving;
use crate::base::phase::Lifecycle;
use crate::load::busy::busy;
use crate::load::lane::LaneShared;
use crate::metrics::PlanCounts;

pub(crate) async fn run<R>(
    lanes: &[Arc<LaneShared>],
    mailboxes: &[Mailbox<R>],
    plans: &PlanCounts,
    lifecycle: &Lifecycle,
    moving: Moving,
) {
    let mut policy = Policy::new(lanes.len());
    while moving == Moving::Active && is_open(lanes, lifecycle) {
        if let Some((lane, step)) = policy.tick(Instant::now(), &samples(lanes, mailboxes)) {
            mailboxes[lane].tell(step);
        }
        if let Some(outcome) = policy.take_outcome() {
            plans.end(outcome);
        }
        tokio::time::sleep(policy.pause()).await;
    }
    pending().await
}

fn samples<R>(lanes: &[Arc<LaneShared>], mailboxes: &[Mailbox<R>]) -> Vec<Sample> {
    let now = Instant::now();
    let each = lanes.iter().zip(mailboxes).map(|(lane, mailbox)| Sample {
        busy: busy(lane, now),
        requests: lane.metrics.finished.get(),
        active: lane.metrics.active.get(),
        given: mailbox.spent(),
        unresponsive: mailbox.is_unheard(),
    });
    each.collect()
}
