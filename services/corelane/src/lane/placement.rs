//! How connections reach their lanes.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use super::accept::Source;
use super::inbox::Inboxes;
use crate::base::settings::Placement;

/// The number of listening sockets of a placement.
pub(crate) fn listeners(placement: Placement, lanes: usize) -> usize {
    match placement {
        Placement::Hashed => lanes,
        Placement::Shared | Placement::LeastLoaded => 1,
    }
}

/// The source of connections for each of `lanes` lanes, and the listener of the acceptor if there
/// is one, which fills `inboxes`.
pub(crate) fn sources(
    inboxes: Option<&Arc<Inboxes>>,
    placement: Placement,
    listeners: Vec<TcpListener>,
    lanes: usize,
) -> io::Result<(Vec<Source>, Option<TcpListener>)> {
    let mut listeners = listeners.into_iter();
    if let Some(inboxes) = inboxes {
        let sources = (0..lanes).map(|_| Source::Inbox(Arc::clone(inboxes))).collect();
        return Ok((sources, listeners.next()));
    }
    if placement == Placement::Hashed {
        return Ok((listeners.map(Source::Own).collect(), None));
    }
    let second = |listener: &TcpListener| listener.try_clone().map(Source::Common);
    let common = listeners.next();
    let sources = common.iter().cycle().take(lanes).map(second);
    Ok((sources.collect::<Result<_, _>>()?, None))
}
