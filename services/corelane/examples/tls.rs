//! TLS with HTTP/1.1 and HTTP/2; a replaced certificate takes effect within seconds.
//!
//! ```sh
//! openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
//!     -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout tls.key -out tls.crt
//! cargo run --example tls 127.0.0.1:8443 tls.crt tls.key
//! curl -i --cacert tls.crt https://localhost:8443/
//! ```

use std::convert::Infallible;

use bytes::Bytes;
use corelane::{Incoming, Server, Tls};
use http::{Request, Response};
use http_body_util::Full;

async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from(format!("hello over {:?}\n", request.version()))))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(certificate), Some(key)) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("give an address, a certificate file and a key file".into());
    };
    let server =
        Server::builder().bind(address.parse()?).tls(Tls::new(certificate, key)).build()?;
    println!("listening on {}", server.local_addr()?);
    let drained = server.serve(|_lane| tower::service_fn(hello))?;
    println!("drained; {} requests were cut", drained.cut);
    Ok(())
}
