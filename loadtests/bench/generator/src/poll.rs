//! The event loop of every load.

use std::io;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::Timespec;

#[derive(Debug)]
pub(crate) struct Poll {
    epoll: OwnedFd,
    /// Poll without sleeping: waking a sleeping thread adds to the cost of sending, with an
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

    /// Re-arms a socket after its one-shot event.
    pub(crate) fn rearm(
        &self,
        socket: impl AsFd,
        number: u64,
        flags: EventFlags,
    ) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(number), flags)?)
    }

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
