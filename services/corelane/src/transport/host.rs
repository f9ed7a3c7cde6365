//! State shared by a lane's connections: the service, buffers, and hyper's settings.

use std::rc::Rc;

use bytes::Bytes;

use crate::os::socket::Socket;
use crate::request::connection::Connection;
use crate::request::dispatch::Dispatch;
use crate::request::lane_state::LaneState;
use crate::request::service::HttpService;
use crate::transport::buffers::Buffers;
use crate::transport::connections::{Connections, Registration};
use crate::transport::fallback::HttpSettings;

pub(crate) struct LaneService<S: HttpService> {
    pub(crate) lane: Rc<LaneState>,
    pub(crate) connections: Rc<Connections>,
    pub(crate) service: S,
    settings: HttpSettings,
    pub(crate) buffers: Buffers<S>,
}

impl<S: HttpService> LaneService<S> {
    pub(crate) fn new(connections: Rc<Connections>, service: S) -> Self {
        let lane = Rc::clone(&connections.lane);
        let settings = HttpSettings::new(&lane);
        LaneService { lane, connections, service, settings, buffers: Buffers::new() }
    }

    fn dispatch(&self, connection: &Rc<Connection>) -> Dispatch<S> {
        Dispatch {
            service: self.service.clone(),
            connection: Rc::clone(connection),
            lane: Rc::clone(&self.lane),
        }
    }

    /// Hands an HTTP/1.1 connection to hyper permanently. `prefix` was already read from the
    /// connection.
    pub(crate) fn fall_back(&self, registration: Registration, socket: Socket, prefix: Bytes) {
        let dispatch = self.dispatch(&registration.connection);
        self.settings.serve_http1(dispatch, registration, socket, prefix);
    }

    /// Hands an HTTP/2 connection to hyper. `prefix` was already read from the connection.
    #[cfg(feature = "http2")]
    pub(crate) fn serve_http2(&self, registration: Registration, socket: Socket, prefix: Bytes) {
        let dispatch = self.dispatch(&registration.connection);
        self.settings.serve_http2(dispatch, registration, socket, prefix);
    }
}
