//! How connections reach their lanes, and how none is lost when lanes start and end.
//!
//! | part | does |
//! |---|---|
//! | [`group`] | the listening sockets as a group: steering, and the end of new handshakes |
//! | [`program`] | the BPF programs for both |
//! | [`accept`] | admits connections to a lane, from a listener or an inbox |
//! | [`acceptor`], [`inbox`] | pass connections to the least loaded lane, and let others steal them |
//! | [`back_off`] | keeps a listener from spinning when files run out |

mod accept;
mod acceptor;
mod back_off;
mod group;
mod inbox;
mod program;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

pub(crate) use accept::{Source, accept_until_drained};
pub(crate) use acceptor::Acceptor;
pub(crate) use group::ListenerGroup;
pub(crate) use inbox::{Inbox, Inboxes, Place};

use crate::settings::Placement;
use crate::shared::Shared;

/// The number of listening sockets of a placement.
pub(crate) fn listeners(placement: Placement, lanes: usize) -> usize {
    match placement {
        Placement::Hashed => lanes,
        Placement::Shared | Placement::LeastLoaded => 1,
    }
}

/// The source of connections for each of `lanes` lanes, and the listener of the acceptor if there
/// is one.
pub(crate) fn sources(
    placement: Placement,
    listeners: Vec<TcpListener>,
    lanes: usize,
) -> io::Result<(Vec<Source>, Option<TcpListener>)> {
    let mut listeners = listeners.into_iter();
    Ok(match placement {
        Placement::Hashed => (listeners.map(Source::Own).collect(), None),
        Placement::Shared => {
            let second = |listener: &TcpListener| listener.try_clone().map(Source::Common);
            let common = listeners.next();
            let sources = common.iter().cycle().take(lanes).map(second);
            (sources.collect::<Result<_, _>>()?, None)
        }
        Placement::LeastLoaded => ((0..lanes).map(|_| Source::Inbox).collect(), listeners.next()),
    })
}

/// Reports to the inboxes, if there are any, when this lane sleeps and wakes.
pub(crate) fn watch_sleep(
    runtime: &mut tokio::runtime::Builder,
    shared: &Arc<Shared>,
    lane: usize,
) {
    if shared.inboxes.is_none() {
        return;
    }
    let tell = |what: fn(&Inboxes, usize)| {
        let shared = Arc::clone(shared);
        move || shared.inboxes.iter().for_each(|inboxes| what(inboxes, lane))
    };
    runtime.on_thread_park(tell(Inboxes::fall_asleep)).on_thread_unpark(tell(Inboxes::wake_up));
}
