//! A user with its connection.

use std::collections::VecDeque;
use std::time::Instant;

use super::user::User;
use crate::exchange::Kind;
use crate::hold::client::Client;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) user: User,
    pub(crate) client: Option<Client>,
    /// Whether the connection has had a reply.
    pub(crate) replied: bool,
    /// The request in flight, and when it was due.
    pub(crate) asked: Option<(Kind, Instant)>,
    /// The next requests. One without a due time is sent as soon as possible.
    pub(crate) todo: VecDeque<(Kind, Option<Instant>)>,
}

impl Session {
    pub(crate) fn new(user: User) -> Self {
        Session { user, client: None, replied: false, asked: None, todo: VecDeque::new() }
    }

    /// Something in flight or to do.
    pub(crate) fn is_busy(&self) -> bool {
        self.asked.is_some() || !self.todo.is_empty()
    }
}
