//! `weir lab run` with calls of gRPC: of a real server with reflection, where Python has one, also through weir
//! as a proxy.

use crate::harness::{self, Weir, weir};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// The server, ended when dropped.
struct Orders(Child, SocketAddr);

impl Orders {
    /// `None`, which is reported, where it cannot be had.
    fn start() -> Option<Self> {
        let program = harness::python_package("grpcio-reflection==1.85.1", "bin/python")?;
        let mut command = Command::new(program);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/lab/orders.py"));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut port = String::new();
        let out = child.stdout.take().expect("its output is piped");
        BufReader::new(out).read_line(&mut port).expect("a port");
        let port = port.trim().parse().expect("a number");
        Some(Self(child, SocketAddr::from(([127, 0, 0, 1], port))))
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs requests: results, and what was printed. The verdict depends on the machine.
fn ran(addr: SocketAddr, requests: &str) -> (Value, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let scenario = format!(
        "lab: 1\ntarget: {{base: \"http://{addr}\", timeout: 5s}}\nrequests:\n{requests}\
         load: {{executor: shared-iterations, vus: 2, iterations: 10}}\n"
    );
    fs::write(dir.path().join("scenario.yaml"), scenario).expect("written");
    let output = weir(dir.path(), &["lab", "run", "scenario.yaml", "--out", "out"]);
    let text = fs::read_to_string(dir.path().join("out/summary.json")).unwrap_or_default();
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    (serde_json::from_str(&text).unwrap_or_default(), printed)
}

/// Successes by label, without the total.
fn successes(summary: &Value) -> Vec<(String, u64)> {
    let labels = summary["cells"][0]["labels"].as_array().cloned().unwrap_or_default();
    let row = |row: &Value| {
        (
            row["label"].as_str().unwrap_or_default().to_owned(),
            row["ok"].as_u64().unwrap_or_default(),
        )
    };
    labels.iter().skip(1).map(row).collect()
}

const ALL: &str = "  \
  - {name: get, grpc: shop.Orders/Get, message: {order_id: \"a-${user()}\"}, deadline: 5s,
     checks: [{grpc_status: OK}, {json: {$.cents: 3}}, {header: {x-last: one}}], extract: {id: {json: $.orderId}}}
  - {name: watch, grpc: shop.Orders/Watch, message: {cents: 3}, checks: [{json: {'$[2].cents': 2}}]}
  - {name: put, grpc: shop.Orders/Put, message: [{cents: 1}, {cents: 2}], repeat: 2, checks: [{json: {$.cents: 6}}]}
  - {name: talk, grpc: shop.Orders/Talk, message: [{order_id: \"${id}\"}], repeat: 3}
";

#[test]
fn calls_of_a_real_server_also_through_weir() {
    let Some(server) = Orders::start() else { return };
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nupstreams:\n  calls: {{targets: [\"http://{}\"], protocol: http2}}\n\
         apis:\n  all: {{base: /, routes: [{{path: \"/*\", proxy: calls}}]}}\n",
        server.1
    );
    let proxy = Weir::new(&config).start();
    let row = |name: &str, ok| (name.to_owned(), ok);
    let expected = [
        row("get", 10),
        row("watch", 10),
        row("put", 10),
        row("talk", 10),
        row("put message", 40),
        row("talk message", 30),
        row("watch message", 30),
    ];
    for addr in [server.1, proxy.listen[0]] {
        let (summary, printed) = ran(addr, ALL);
        let mut found = successes(&summary);
        assert_eq!(found.len(), expected.len(), "{printed}");
        // Labels of messages are in the order of their first samples.
        found[4..].sort();
        assert_eq!(found.as_slice(), &expected[..], "{printed}");
    }
}

#[test]
fn failed_calls_have_the_status_of_a_real_server() {
    let Some(server) = Orders::start() else { return };
    let errors = |requests: &str, kind: &str| {
        let (summary, printed) = ran(server.1, requests);
        let count = summary["cells"][0]["labels"][1]["errors"][kind].as_u64();
        assert_eq!(count, Some(10), "{printed}");
    };
    errors("  - {grpc: shop.Orders/Get, message: {order_id: missing}}\n", "grpc_not_found");
    let slow = "  - {grpc: shop.Orders/Get, message: {order_id: slow}, deadline: 50ms}\n";
    errors(slow, "grpc_deadline_exceeded");
    let (_, printed) = ran(server.1, "  - {grpc: shop.Orders/Gte}\n");
    let expected = "`shop.Orders` has no method `Gte`: did you mean `Get`?";
    assert!(printed.contains(expected), "{printed}");
}
