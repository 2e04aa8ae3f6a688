//! HTTP/2 to upstreams, and gRPC over it: calls of a real client to a real server where Python has
//! them, and frame by frame what those do not do.

pub(crate) mod frames;
mod trailers;

use crate::harness::{self, Certificate, Server, Upstream, Weir, eventually, nobody};
use frames::{Call, call, odd, refusing, responding};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use weir_journal::{Outcome, Transaction};

fn config(targets: &[SocketAddr], upstream: &str, more: &str) -> String {
    let targets: Vec<String> = targets.iter().map(|addr| format!("\"http://{addr}\"")).collect();
    format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\ntracker: {{enabled: true}}\n\
         upstreams:\n  calls: {{targets: [{}], protocol: http2, timeout: 5s{upstream}}}\n\
         apis:\n  all:\n    base: /\n    routes: [{{path: \"/*\", proxy: calls}}]\n{more}",
        targets.join(", ")
    )
}

fn before(targets: &[SocketAddr], upstream: &str) -> Server {
    Weir::new(&config(targets, upstream, "")).start()
}

/// The transactions, once weir has been stopped.
fn all(weir: &mut Server) -> Vec<Transaction> {
    weir.kill();
    harness::transactions(&weir.data())
}

fn status(transaction: &Transaction) -> &str {
    let found = transaction.properties.iter().find(|(name, _)| name == "grpc_status");
    found.map_or("", |(_, value)| value)
}

fn counted(weir: &Server, code: u8) -> f64 {
    weir.metric("weir_upstream_grpc_total", &[&format!("rpc_grpc_status_code=\"{code}\"")])
}

fn again(weir: &Server, why: &str) -> f64 {
    weir.metric("weir_upstream_retries_total", &[&format!("weir_reason=\"{why}\"")])
}

/// The script that serves and calls, if what it needs can be had; says so if not.
fn python() -> Option<Command> {
    let own = std::env::var_os("WEIR_GRPC_PYTHON").map(PathBuf::from);
    let program = own.or_else(|| harness::python_package("grpcio==1.85.1", "bin/python"))?;
    let mut command = Command::new(program);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/grpc/calls.py"));
    Some(command)
}

/// A real server, ended when dropped.
struct Real(Child, SocketAddr);

impl Real {
    fn start(mut command: Command) -> Self {
        let mut child = command.arg("serve").stdout(Stdio::piped()).spawn().expect("it starts");
        let mut port = String::new();
        let out = child.stdout.take().expect("its output is piped");
        BufReader::new(out).read_line(&mut port).expect("a port");
        let port = port.trim().parse().expect("a number");
        Self(child, SocketAddr::from(([127, 0, 0, 1], port)))
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn calls_of_a_real_client_reach_a_real_server_and_come_back_whole() {
    let (Some(server), Some(mut client)) = (python(), python()) else { return };
    let server = Real::start(server);
    let mut weir = before(&[server.1], "");
    let output = client.args(["call", &weir.listen[0].to_string()]).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}\n{}", weir.stderr());
    eventually("nothing is open", || weir.metric("http_server_active_requests", &[]) == 0.0);
    // Unary, 300 at once, three streams; refused, unknown, broken in the middle.
    assert_eq!([0, 9, 12, 15].map(|code| counted(&weir, code)), [308.0, 1.0, 1.0, 1.0]);
    assert!(weir.metric("weir_upstream_connects_total", &[]) <= 4.0);
    let all = all(&mut weir);
    // A call whose time is up is ended by the server or by weir.
    let failed = all.iter().filter(|one| one.outcome == Outcome::Failed);
    let failed = failed.filter(|one| !["", "4"].contains(&status(one)));
    assert_eq!(failed.map(status).collect::<Vec<_>>(), ["15"]);
}

#[test]
fn over_tls_it_is_agreed_on_in_the_handshake() {
    let certificate = Certificate::of("localhost");
    let tls = "tls: {cert: \"file:tls.crt\", key: \"file:tls.key\"}";
    let listen = format!("listen: [{{addr: \"127.0.0.1:0\", {tls}}}]");
    let inner = config(&[responding()], "", "");
    let inner = Weir::new(&inner.replace("listen: [{addr: \"127.0.0.1:0\"}]", &listen))
        .file("tls.crt", &certificate.cert)
        .file("tls.key", &certificate.key)
        .start();
    let https = format!("https://localhost:{}", inner.listen[0].port());
    let outer = config(&[inner.listen[0]], ", tls: {ca: \"file:ca.crt\"}", "");
    let outer = outer.replace(&format!("http://{}", inner.listen[0]), &https);
    let outer = Weir::new(&outer).file("ca.crt", &certificate.cert).start();
    let response = call(&outer, Call::new("/0/Method").message("hi"));
    assert_eq!((response.status, response.body.as_slice()), (200, &b"\0\0\0\0\x02hi"[..]));
    assert_eq!(response.trailer("grpc-status"), "0");
}

#[test]
fn heads_bodies_and_trailers_pass_both_ways() {
    let mut weir = before(&[responding()], "");
    let asked =
        Call::new("/0/Method?a=1").message("hi").header("x-asked", "me").trailer("x-end", "now");
    let response = call(&weir, asked);
    assert_eq!(response.status, 200);
    assert_eq!(response.header("x-answered"), "me");
    assert_eq!(response.header("x-path"), "/0/Method?a=1");
    assert_eq!(response.header("x-te"), "trailers");
    assert_eq!(response.trailer("x-end"), "now");
    let via = response.header("x-via");
    assert!(via.starts_with("2 "), "{via}");
    for code in [5, 14] {
        let response = call(&weir, Call::new(&format!("/{code}/Method")).message("x"));
        assert_eq!(
            (response.status, response.trailer("grpc-status")),
            (200, code.to_string().as_str())
        );
        let response = call(&weir, Call::new(&format!("/{code}/Alone")).message("x"));
        assert_eq!(
            (response.status, response.header("grpc-status")),
            (200, code.to_string().as_str())
        );
    }
    assert_eq!([0, 5, 14].map(|code| counted(&weir, code)), [1.0, 2.0, 2.0]);
    assert_eq!(weir.metric("weir_upstream_connects_total", &[]), 1.0);
    let all = all(&mut weir);
    assert_eq!(all.iter().map(status).collect::<Vec<_>>(), ["0", "5", "5", "14", "14"]);
    let failed = all.iter().map(|one| one.outcome == Outcome::Failed);
    assert_eq!(failed.collect::<Vec<_>>(), [false, false, false, true, true]);
    assert_eq!((all[0].request.length, all[0].response.length), (7, 7));
}

#[test]
fn clients_of_http1_and_checks_reach_such_an_upstream_too() {
    let check = ", health: {check: {path: /0/Alone, every: 1s}}";
    let weir = before(&[responding()], check);
    let mut client = weir.connect();
    let long = "x".repeat(500_000);
    for body in ["", "hi", &long] {
        let response = client.request("POST", "/0/Plain", &[("content-type", "text/plain")], body);
        assert_eq!((response.status, response.text().as_str()), (200, body));
    }
    client.send("POST /0/Plain HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("3\r\nabc\r\n");
    client.send("2\r\nde\r\n0\r\n\r\n");
    assert_eq!(client.response().text(), "abcde");
    assert_eq!(client.request("HEAD", "/0/Plain", &[], "").status, 200);
    eventually("it has been checked", || {
        weir.metric("weir_upstream_checks_total", &["weir_result=\"good\""]) > 0.0
    });
    assert_eq!(weir.metric("weir_upstream_checks_total", &["weir_result=\"bad\""]), 0.0);
}

#[test]
fn the_time_that_a_client_gives_a_call_ends_it() {
    let weir = before(&[responding()], "");
    let late = call(&weir, Call::new("/0/Never").message("x").header("grpc-timeout", "200m"));
    assert_eq!((late.status, late.header("grpc-status")), (200, "4"));
    assert_eq!(late.header("grpc-message"), "The request exceeded its time limit");
}

/// APIs that refuse for a reason each.
fn refusing_config() -> String {
    let more = "\
         \x20 down: {base: /down, routes: [{path: \"/*\", proxy: nobody}]}\n\
         \x20 closed: {base: /closed, auth: keys, routes: [{path: \"/*\", proxy: calls}]}\n\
         \x20 scarce:\n    base: /scarce\n    limit: {rate: 1/h, key: address}\n    \
         routes: [{path: \"/*\", proxy: {upstream: calls, path: strip-base}}]\n\
         auth: {keys: {api_key: {header: x-key}}}\n";
    let config = config(&[responding()], "", more).replace("base: /\n", "base: /test\n");
    let nobody = format!("upstreams:\n  nobody: {{targets: [\"http://{}\"]}}\n", nobody());
    config.replace("upstreams:\n", &nobody)
}

#[test]
fn what_weir_refuses_of_a_call_is_told_by_the_rules_of_grpc() {
    let mut weir = Weir::new(&refusing_config()).start();
    let ask = |path: &str, text: &str| call(&weir, Call::new(path).message(text));
    let refused = |path: &str, text: &str, code: &str| {
        let response = ask(path, text);
        let told = (response.status, response.header("grpc-status"), response.body.len());
        assert_eq!(told, (200, code, 0), "{path}");
        assert_eq!(response.header("content-type"), "application/grpc", "{path}");
        assert!(!response.header("weir-transaction-id").is_empty(), "{path}");
        response
    };
    refused("/none/Method", "x", "12");
    let response = refused("/closed/Method", "x", "16");
    assert_eq!(response.header("grpc-message"), "A credential is required");
    assert!(!response.header("www-authenticate").is_empty());
    let down = refused("/down/Method", "x", "14");
    let message = down.header("grpc-message");
    assert!(message.starts_with("The upstream cannot be reached: "), "{message}");
    assert_eq!(ask("/scarce/0/Method", "x").trailer("grpc-status"), "0");
    let response = refused("/scarce/0/Method", "x", "8");
    let pause: u64 = response.header("grpc-retry-pushback-ms").parse().expect("a number");
    assert_eq!(response.header("retry-after").parse::<u64>().expect("a number") * 1000, pause);

    // By HTTP/1, or of another type, it is a problem as ever.
    let headers = [("content-type", "application/grpc")];
    let plain = weir.connect().request("POST", "/none/Method", &headers, "x");
    assert_eq!((plain.status, plain.json()["status"].as_u64()), (404, Some(404)));
    let typed = |kind| call(&weir, Call::new("/none/Method").instead_of_grpc(kind));
    assert_eq!(
        (typed("application/json").status, typed("application/grpc-web").status),
        (404, 404)
    );

    // Counted and recorded as what it stands for.
    let refusals = |status: u16| {
        let status = format!("http_response_status_code=\"{status}\"");
        weir.metric("http_server_request_duration_seconds_count", &[&status])
    };
    assert_eq!([200, 401, 404, 429, 502].map(refusals), [1.0, 1.0, 4.0, 1.0, 1.0]);
    let all = all(&mut weir);
    let statuses: Vec<_> = all.iter().map(|one| one.status).collect();
    assert_eq!(statuses, [404, 401, 502, 200, 429, 404, 404, 404]);
    assert_eq!(status(&all[2]), "14");
}

#[test]
fn a_real_client_understands_why_a_call_is_refused() {
    let Some(mut client) = python() else { return };
    let weir = Weir::new(&refusing_config()).start();
    let output = client.args(["refused", &weir.listen[0].to_string()]).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}\n{}", weir.stderr());
}

#[test]
fn a_target_that_cannot_be_reached_is_passed_over_and_calls_are_sent_again_within_the_budget() {
    let retries = ", retries: {methods: any, minimum: 1000}, health: {failures: 0}";
    let weir = before(&[nobody(), responding()], retries);
    for _ in 0..10 {
        assert_eq!(call(&weir, Call::new("/0/Method").message("x")).trailer("grpc-status"), "0");
    }
    // Once the message has been answered it is too late to think again.
    assert_eq!(call(&weir, Call::new("/14/Method").message("x")).trailer("grpc-status"), "14");
    assert_eq!(again(&weir, "status"), 0.0);
    assert_eq!(call(&weir, Call::new("/14/Alone").message("x")).header("grpc-status"), "14");
    assert!(again(&weir, "status") >= 1.0);
    let refused = "weir_upstream_retries_refused_total";
    assert_eq!(weir.metric(refused, &["weir_reason=\"tries\""]), 1.0);
}

#[test]
fn a_connection_that_is_going_away_loses_no_request() {
    let (addr, connections) = odd(|_, mut connection| async move {
        // Each answers one request, then says that it goes.
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            let _ = respond.send_response(frames::head(204), true);
            connection.graceful_shutdown();
        }
    });
    let weir = before(&[addr], "");
    let mut client = weir.connect();
    for _ in 0..20 {
        assert_eq!(client.get("/x").status, 204);
    }
    assert!(connections.load(SeqCst) > 1);
}

#[test]
fn a_stream_that_is_refused_has_certainly_not_been_dealt_with() {
    // A POST, which is not sent again else.
    for (retries, expected) in [("", 502), (", retries: {minimum: 100}", 204)] {
        let weir = before(&[refusing()], retries);
        let mut client = weir.connect();
        // The first one is refused on a fresh connection, so nothing is done about it unasked.
        assert_eq!(client.post("/x", "{}").status, expected, "{retries}");
    }
}

#[test]
fn what_is_no_http2_or_lies_about_its_length_is_the_upstreams_fault() {
    let plain = Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let weir = before(&[plain.addr], "");
    assert_eq!(weir.connect().get("/x").status, 502);
    for (length, body) in [(5, "too long for that"), (50, "too short")] {
        let (addr, _) = odd(move |_, mut connection| async move {
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                let mut head = frames::head(200);
                head.headers_mut().insert("content-length", length.into());
                if let Ok(mut out) = respond.send_response(head, false) {
                    let _ = out.send_data(body.into(), true);
                }
            }
        });
        let weir = before(&[addr], "");
        let mut client = weir.connect();
        client.send("GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let (rest, _) = client.rest_or_reset();
        let text = String::from_utf8_lossy(&rest);
        let whole =
            text.starts_with("HTTP/1.1 200") && text.ends_with(body) && body.len() == length;
        assert!(!whole, "{text}");
        assert!(
            text.is_empty() || text.starts_with("HTTP/1.1 502") || text.contains("length: "),
            "{text}"
        );
    }
}

#[test]
fn one_that_is_killed_in_the_middle_of_a_response_aborts_it() {
    let (addr, _) = odd(|_, mut connection| async move {
        let Some(Ok((_, mut respond))) = connection.accept().await else { return };
        let Ok(mut out) = respond.send_response(frames::head(200), false) else { return };
        let _ = out.send_data("half".into(), false);
        let closed = std::future::poll_fn(|cx| connection.poll_closed(cx));
        let _ = tokio::time::timeout(std::time::Duration::from_millis(200), closed).await;
    });
    let mut weir = before(&[addr], "");
    let mut client = weir.connect();
    client.send("GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let text = String::from_utf8_lossy(&client.rest_or_reset().0).into_owned();
    assert!(text.contains("half") && !text.ends_with("0\r\n\r\n"), "{text}");
    assert_eq!(all(&mut weir)[0].outcome, Outcome::Failed);
}

#[test]
fn calls_are_copied_to_mirrors_of_either_protocol() {
    let plain = Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let more = format!(
        "  more: {{targets: [\"http://{}\"], protocol: http2}}\n  \
         plain: {{targets: [\"http://{}\"]}}\napis:\n",
        responding(),
        plain.addr
    );
    let mirrors = "proxy: {upstream: calls, mirror: [{upstream: more}, {upstream: plain}]}";
    let config = config(&[responding()], "", "").replace("proxy: calls", mirrors);
    let config = config.replace("apis:\n", &more);
    let weir = Weir::new(&config).start();
    let response = call(&weir, Call::new("/5/Method").message("hi"));
    assert_eq!(response.trailer("grpc-status"), "5");
    eventually("copies are answered", || {
        weir.metric("weir_mirror_requests_total", &["weir_outcome=\"sent\""]) == 2.0
    });
    let of = |name: &str| weir.metric("http_client_request_duration_seconds_count", &[name]);
    assert_eq!(["calls", "more", "plain"].map(of), [1.0; 3]);
    let head = plain.heads()[0].to_ascii_lowercase();
    assert!(head.contains("content-type: application/grpc") && head.contains("content-length: 7"));
    assert_eq!(counted(&weir, 5), 1.0, "calls of clients are counted, copies are not");
}

#[test]
fn a_client_that_cancels_frees_its_place() {
    let weir = before(&[responding()], ", connections: 1");
    // A call that is cancelled while the connection is opened ends that, too.
    assert_eq!(call(&weir, Call::new("/0/Method").message("x")).trailer("grpc-status"), "0");
    for _ in 0..150 {
        frames::cancelled(&weir, Call::new("/0/Never").message("x"));
    }
    assert_eq!(call(&weir, Call::new("/0/Method").message("x")).trailer("grpc-status"), "0");
    eventually("nothing is open", || weir.metric("http_server_active_requests", &[]) == 0.0);
    assert_eq!(weir.metric("weir_upstream_connects_total", &[]), 1.0);
}
