//! The TLS types for builds without the `tls` feature. These types have no values.

use crate::base::error::Error;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Tls {}

#[derive(Debug)]
pub(crate) enum Termination {}

#[derive(Debug)]
pub(crate) enum Watch {}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Reload {}

impl Tls {
    pub(crate) fn check_bounds(&self) -> Result<(), String> {
        match *self {}
    }
}

impl Termination {
    pub(crate) fn load(settings: &Tls) -> Result<(Self, Watch), Error> {
        match *settings {}
    }

    pub(crate) fn reloads(&self, _result: Reload) -> u64 {
        match *self {}
    }

    pub(crate) fn up_to_date(&self) -> bool {
        match *self {}
    }

    pub(crate) fn verifies_clients(&self) -> bool {
        match *self {}
    }

    pub(crate) fn not_after(&self) -> u64 {
        match *self {}
    }
}

impl Reload {
    pub(crate) const ALL: [(Reload, &'static str); 0] = [];
}

impl Watch {
    pub(crate) async fn run(self, _tls: &Termination) {
        match self {}
    }
}
