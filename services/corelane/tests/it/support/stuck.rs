//! Lanes blocked by a handler.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use corelane::{Incoming, Lane};
use http::{Request, Response};
use http_body_util::Full;
use tower::Service;

use super::{Client, PATIENCE, Running};

/// `/block` blocks its lane until released, and other paths respond immediately.
#[derive(Clone, Default)]
pub(crate) struct Stuck {
    state: Arc<(Mutex<Lanes>, Condvar)>,
}

#[derive(Default)]
struct Lanes {
    blocked: BTreeSet<usize>,
    released: BTreeSet<usize>,
}

impl Stuck {
    pub(crate) fn factory(&self) -> impl Fn(&Lane) -> StuckService + Send + Sync + 'static + use<> {
        let stuck = self.clone();
        move |lane| StuckService { stuck: stuck.clone(), lane: lane.index() }
    }

    fn block(&self, lane: usize) {
        let (lanes, changed) = &*self.state;
        let mut lanes = lanes.lock().expect("not poisoned");
        lanes.blocked.insert(lane);
        let held = |lanes: &mut Lanes| !lanes.released.contains(&lane);
        let (mut lanes, _) =
            changed.wait_timeout_while(lanes, PATIENCE, held).expect("not poisoned");
        lanes.blocked.remove(&lane);
    }

    /// Releases current and future handlers of `lane`.
    pub(crate) fn release(&self, lane: usize) {
        let (lanes, changed) = &*self.state;
        lanes.lock().expect("not poisoned").released.insert(lane);
        changed.notify_all();
    }

    pub(crate) fn blocked(&self) -> BTreeSet<usize> {
        self.state.0.lock().expect("not poisoned").blocked.clone()
    }

    /// Blocks the lanes, and returns the clients of the blocking and queued requests.
    pub(crate) fn block_all(&self, server: &Running, lanes: usize) -> Vec<Client> {
        let mut clients = Vec::new();
        server.wait_until("blocked", || {
            let before = self.blocked().len();
            if before < lanes {
                let mut client = server.connect();
                client.send_get("/block");
                clients.push(client);
                // The kernel's hash may keep picking blocked lanes.
                let looks = 20;
                for _ in 0..looks {
                    if self.blocked().len() > before {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            self.blocked().len() == lanes
        });
        clients
    }
}

#[derive(Clone)]
pub(crate) struct StuckService {
    stuck: Stuck,
    lane: usize,
}

impl Service<Request<Incoming>> for StuckService {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        if request.uri().path() == "/block" {
            self.stuck.block(self.lane);
        }
        std::future::ready(Ok(Response::new(Full::from(self.lane.to_string()))))
    }
}
