//! What collectors are told: spans, metrics, and what happens when they do not listen.

pub(crate) mod collector;
mod exemplars;
mod failures;
mod metrics;
mod traces;

use crate::harness::Weir;
use std::net::SocketAddr;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// weir with an API whose routes are these, in front of `upstream`, that tells `collector`.
fn before(upstream: SocketAddr, collector: SocketAddr, telemetry: &str, routes: &str) -> Weir {
    Weir::new(&configuration(upstream, collector, telemetry, routes))
}

fn configuration(
    upstream: SocketAddr,
    collector: SocketAddr,
    telemetry: &str,
    routes: &str,
) -> String {
    format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         upstreams:\n  one: {{targets: [\"http://{upstream}\"], timeout: 5s, \
         health: {{failures: 0}}, retries: {{budget: 100%, minimum: 1000, backoff: 1ms}}}}\n  \
         collector: {{targets: [\"http://{collector}\"], timeout: 2s, \
         auth: {{bearer: secret-of-the-collector}}}}\n\
         telemetry: {{to: collector, {telemetry}}}\n\
         apis:\n  all:\n    base: /\n    routes: [{routes}]\n"
    )
}
