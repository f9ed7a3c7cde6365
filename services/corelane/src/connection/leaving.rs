//! How a connection ends: our side first, then the client's.

use super::{Activity, Connection};

impl Connection {
    /// Our side is closed. Returns whether more input may follow. Closing would then reset the
    /// connection, which may lose the reply (RFC 9112 section 9.6).
    pub(crate) fn leave(&self) -> bool {
        let unread = self.had_body.get() || self.activity.get() == Activity::Header;
        // The client did not request the end, and may send more before it notices. An HTTP/2 client
        // sends frames for as long as the connection is open.
        let told = self.told.get();
        let surprised =
            if self.multiplexed.get() { told } else { !told && !self.tracker.is_last() };
        self.enter(Activity::Leaving);
        unread || surprised
    }

    /// Whether our side is closed and only the client's is open.
    pub(crate) fn is_leaving(&self) -> bool {
        self.activity.get() == Activity::Leaving
    }

    /// Stops waiting for the client's side.
    pub(crate) fn abandon(&self) {
        self.abandoned.set(true);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.get()
    }
}
