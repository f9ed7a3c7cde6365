//! A per-lane cache with `Rc` and `RefCell`, because no other thread accesses it.
//!
//! ```sh
//! cargo run --example per_lane_state 127.0.0.1:8080
//! curl http://127.0.0.1:8080/some/path http://127.0.0.1:8080/some/path
//! ```

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::rc::Rc;

use bytes::Bytes;
use corelane::{Incoming, Server};
use http::{Request, Response};
use http_body_util::Full;

const MOST: usize = 1000;

#[derive(Default)]
struct Cache {
    asked: RefCell<HashMap<String, u64>>,
}

impl Cache {
    fn ask(&self, path: &str) -> u64 {
        let mut asked = self.asked.borrow_mut();
        if asked.len() >= MOST && !asked.contains_key(path) {
            asked.clear();
        }
        let times = asked.entry(path.to_owned()).or_default();
        *times += 1;
        *times
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let server = Server::builder().bind(address.parse()?).build()?;
    println!("listening on {}", server.local_addr()?);
    // Called on each lane's own thread, so the service need not be `Send`.
    let drained = server.serve(|lane| {
        let (lane, cache) = (lane.index(), Rc::new(Cache::default()));
        tower::service_fn(move |request: Request<Incoming>| {
            let cache = Rc::clone(&cache);
            async move {
                let path = request.uri().path();
                let text = format!("lane {lane} was asked {} times for {path}\n", cache.ask(path));
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(text)))
            }
        })
    })?;
    println!("drained; {} requests were cut", drained.cut);
    Ok(())
}
