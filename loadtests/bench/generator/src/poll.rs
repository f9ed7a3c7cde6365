//! The event loop of every load: waits until a socket has something to read.

use std::io;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::Timespec;

/// The watched sockets, each with a number that identifies its events.
#[derive(Debug)]
pub(crate) struct Poll {
    epoll: OwnedFd,
    /// Poll without sleeping: sending to a sleeping thread includes the cost of waking it, with an
    /// interrupt on another CPU.
    pub(crate) spins: bool,
}

impl Poll {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Poll { epoll: epoll::create(CreateFlags::CLOEXEC)?, spins: false })
    }

    /// Watches a socket until it is closed (epoll(7)).
    pub(crate) fn watch(
        &self,
        socket: impl AsFd,
        number: u64,
        flags: EventFlags,
    ) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, socket, EventData::new_u64(number), flags)
    }

    /// Watches a socket again after its one event has arrived.
    pub(crate) fn rearm(
        &self,
        socket: impl AsFd,
        number: u64,
        flags: EventFlags,
    ) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(number), flags)?)
    }

    /// Waits for events, at most `timeout`; as many as `events` has space for.
    pub(crate) fn wait(&self, events: &mut Vec<Event>, timeout: Duration) -> io::Result<()> {
        events.clear();
        let end = Instant::now() + timeout;
        let sleep = if self.spins { Duration::ZERO } else { timeout };
        let sleep = Timespec::try_from(sleep).map_err(io::Error::other)?;
        loop {
            match epoll::wait(&self.epoll, spare_capacity(events), Some(&sleep)) {
                Ok(0) if self.spins && Instant::now() < end => {}
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
