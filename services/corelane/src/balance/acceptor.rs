//! The acceptor of `least-loaded` placement: a thread that accepts connections for all lanes.

use std::future::pending;
use std::io;
use std::sync::Arc;

use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::inbox::{Inboxes, STEAL_AFTER};
use crate::base::error::Error;
use crate::base::phase::{Lifecycle, Phase, StartGate};
use crate::load::lane::LaneGroup;
use crate::metrics::Refusal;
use crate::os::listener::{Accepted, BackOff, Listener, Listeners, REFUSING};

#[derive(Debug)]
pub(crate) struct Acceptor {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) inboxes: Arc<Inboxes>,
    pub(crate) lanes: Arc<LaneGroup>,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) start: Arc<StartGate>,
    pub(crate) limit: usize,
}

impl Acceptor {
    pub(crate) fn run(self) -> Result<u64, Error> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(Default::default())
            .and_then(|runtime| runtime.block_on(self.accept()))
            .map(|()| 0)
            .map_err(Error::system("running the acceptor"))
    }

    async fn accept(self) -> io::Result<()> {
        let (inboxes, lanes) = (&*self.inboxes, &*self.lanes);
        let listeners = Listeners::watch(self.listeners)?;
        let mut distributor = Distributor {
            lanes,
            inboxes,
            limit: self.limit,
            next: 0,
            back_off: BackOff::default(),
        };
        let mut phase = self.lifecycle.watch();
        tokio::select! {
            opened = self.start.opened() => if !opened { return Ok(()) },
            _ = phase.wait_for(|phase| *phase == Phase::Stopped) => return Ok(()),
        }
        let mut ticks = interval(STEAL_AFTER);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut pause = None;
        loop {
            let now = *phase.borrow_and_update();
            if pause.is_none() && !inboxes.have_room(lanes) {
                pause = Some(Instant::now() + STEAL_AFTER);
            }
            if now == Phase::Stopped {
                break;
            }
            if now == Phase::Closing && pause.is_none() {
                match listeners.accept_now() {
                    Some(accepted) => pause = distributor.pass_on(accepted),
                    None => break,
                }
                continue;
            }
            tokio::select! {
                _ = phase.changed() => {}
                _ = ticks.tick(), if inboxes.waiting() > 0 => inboxes.wake_idle(),
                () = end_of(pause) => pause = None,
                accepted = listeners.accept(), if pause.is_none() => {
                    pause = distributor.pass_on(accepted);
                }
            }
        }
        drop(listeners);
        while inboxes.waiting() > 0 && *phase.borrow_and_update() < Phase::Stopped {
            tokio::select! {
                _ = phase.changed() => {}
                _ = ticks.tick() => inboxes.wake_idle(),
            }
        }
        inboxes.finish();
        Ok(())
    }
}

async fn end_of(pause: Option<Instant>) {
    match pause {
        Some(end) => sleep_until(end).await,
        None => pending().await,
    }
}

struct Distributor<'a> {
    lanes: &'a LaneGroup,
    inboxes: &'a Inboxes,
    limit: usize,
    next: usize,
    back_off: BackOff,
}

impl Distributor<'_> {
    /// Returns the time at which to resume accepting if the accept failed.
    fn pass_on(&mut self, accepted: io::Result<Accepted>) -> Option<Instant> {
        match accepted {
            Ok(accepted) => {
                self.back_off.accepted();
                self.place(accepted);
                None
            }
            Err(error) => {
                self.inboxes.acceptor.refuse(Refusal::AcceptError);
                self.back_off.failed(&error).map(|pause| Instant::now() + pause)
            }
        }
    }

    fn place(&mut self, accepted: Accepted) {
        // The inbox has room, because only this thread fills inboxes and it has just checked.
        let Some(lane) = self.inboxes.choose(self.lanes, self.next) else { return };
        let admitted = self.lanes.admit(self.limit, accepted.peer);
        if let Err(reason) = admitted
            && self.inboxes.lanes[lane].length() >= REFUSING
        {
            // Closed without a response, because the lane is already rejecting enough connections.
            self.inboxes.acceptor.refuse(reason);
            return;
        }
        self.inboxes.put(lane, accepted, admitted);
        self.next = lane + 1;
    }
}
