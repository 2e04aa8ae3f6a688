//! Spans: of which requests, what is in them, and whose children they are.

use super::collector::{Collector, attribute, hex};
use super::{OK, PARENT, before, configuration};
use crate::harness::{Signal, Upstream, Weir, eventually, key_hash, nobody};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

const ALL: &str = "traces: {share: 100%}";

fn traceparent(head: &str) -> (String, String, String) {
    let value = head.split("\r\ntraceparent: ").nth(1).expect("a traceparent");
    let value = value.split("\r\n").next().unwrap_or_default();
    let parts: Vec<&str> = value.split('-').collect();
    assert_eq!((parts.len(), parts[0]), (4, "00"), "{value}");
    (parts[1].to_owned(), parts[2].to_owned(), parts[3].to_owned())
}

fn of_kind(spans: &[Span], kind: SpanKind) -> Vec<&Span> {
    spans.iter().filter(|span| span.kind == kind as i32).collect()
}

#[track_caller]
fn assert_attributes(span: &Span, expected: &[(&str, &str)]) {
    for (key, value) in expected {
        assert_eq!(attribute(&span.attributes, key), *value, "{key} of {span:#?}");
    }
}

#[test]
fn a_request_is_a_server_span_and_what_it_asks_for_a_client_span() {
    let (upstream, collector) = (Upstream::responding(OK), Collector::start());
    let more = "traces: {share: 0%}, resource: {service.name: edge, shard: 7}";
    let routes = "{op: read, get: \"/items/{id}\", proxy: one}";
    let weir = before(upstream.addr, collector.upstream.addr, more, routes).start();
    let headers = [("traceparent", PARENT), ("tracestate", "vendor=1")];
    let response = weir.connect().request("GET", "/items/7?token=hidden-7", &headers, "");
    assert_eq!(response.status, 200);

    let spans = collector.spans(2);
    let (server, client) =
        (of_kind(&spans, SpanKind::Server)[0], of_kind(&spans, SpanKind::Client)[0]);
    let (trace, told, flags) = traceparent(&upstream.heads()[0]);
    assert_eq!((trace.as_str(), flags.as_str()), ("0af7651916cd43dd8448eb211c80319c", "01"));
    for span in [server, client] {
        assert_eq!((hex(&span.trace_id), span.trace_state.as_str()), (trace.clone(), "vendor=1"));
        assert_eq!(span.flags & 1, 1, "sampled");
        assert!(span.status.is_none(), "{span:#?}");
    }
    // Client of weir → server span → client span → upstream.
    assert_eq!(hex(&server.parent_span_id), "b7ad6b7169203331");
    assert_eq!(client.parent_span_id, server.span_id);
    assert_eq!(hex(&client.span_id), told);
    assert!(server.start_time_unix_nano <= client.start_time_unix_nano);
    assert!(client.end_time_unix_nano <= server.end_time_unix_nano);
    assert!(client.start_time_unix_nano < client.end_time_unix_nano);

    assert_eq!((server.name.as_str(), client.name.as_str()), ("GET /items/{id}", "GET"));
    let id = response.header("weir-transaction-id").expect("an id");
    assert_attributes(
        server,
        &[
            ("http.request.method", "GET"),
            ("http.response.status_code", "200"),
            ("http.route", "/items/{id}"),
            ("url.path", "/items/7"),
            ("url.scheme", "http"),
            ("client.address", "127.0.0.1"),
            ("network.protocol.version", "1.1"),
            ("weir.transaction.id", id),
            ("weir.api", "all"),
            ("weir.operation", "read"),
            ("error.type", ""),
        ],
    );
    let url = format!("http://{}/items/7", upstream.addr);
    let port = upstream.addr.port().to_string();
    assert_attributes(
        client,
        &[
            ("http.request.method", "GET"),
            ("http.response.status_code", "200"),
            ("server.address", "127.0.0.1"),
            ("server.port", &port),
            ("url.full", &url),
            ("weir.upstream", "one"),
            ("http.request.resend_count", ""),
            ("error.type", ""),
        ],
    );
    let resource = collector.resource().attributes;
    for (key, value) in
        [("service.name", "edge"), ("shard", "7"), ("service.version", env!("CARGO_PKG_VERSION"))]
    {
        assert_eq!(attribute(&resource, key), value);
    }
    assert_eq!(attribute(&resource, "service.instance.id").len(), 36);
    assert!(upstream.heads()[0].contains("hidden-7") && !collector.was_told("hidden-7"));
}

#[test]
fn the_sampled_flag_of_a_parent_decides_and_else_the_share() {
    for (share, parent, traced, flag) in [
        ("0%", Some("01"), true, "01"),
        ("100%", Some("00"), false, "00"),
        ("100%", None, true, "01"),
        ("0%", None, false, "00"),
    ] {
        let (upstream, collector) = (Upstream::responding(OK), Collector::start());
        let more = format!("traces: {{share: {share}}}");
        let weir =
            before(upstream.addr, collector.upstream.addr, &more, "{path: \"/*\", proxy: one}");
        let mut weir = weir.start();
        let mut client = weir.connect();
        let parent = parent.map(|flags| PARENT.replace("-01", &format!("-{flags}")));
        let headers: Vec<_> = parent.iter().map(|value| ("traceparent", value.as_str())).collect();
        assert_eq!(client.request("GET", "/x", &headers, "").status, 200);
        drop(client);
        let (_, told, flags) = traceparent(&upstream.heads()[0]);
        assert_eq!(flags, flag, "{share} {parent:?}");
        if !traced && parent.is_some() {
            assert_eq!(told, "b7ad6b7169203331", "as it came");
        }
        // What is left is told before the process ends.
        weir.signal(Signal::TERM);
        assert!(weir.wait().success());
        let spans = collector.spans_so_far();
        assert_eq!(spans.len(), if traced { 2 } else { 0 }, "{share} {parent:?}");
        if traced && parent.is_none() {
            assert!(of_kind(&spans, SpanKind::Server)[0].parent_span_id.is_empty());
        }
    }
}

#[test]
fn every_try_has_a_span_that_its_upstream_was_told() {
    let upstream = Upstream::start(|number, peer| {
        while peer.request().is_some() {
            match number {
                0 => return,
                1 => drop(peer.send("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")),
                _ => drop(peer.send(OK)),
            }
            peer.finish();
        }
    });
    let collector = Collector::start();
    let weir =
        before(upstream.addr, collector.upstream.addr, ALL, "{path: \"/*\", proxy: one}").start();
    assert_eq!(weir.connect().get("/x").status, 200);
    let spans = collector.spans(4);
    let server = of_kind(&spans, SpanKind::Server)[0];
    let clients = of_kind(&spans, SpanKind::Client);
    let heads = upstream.heads();
    for (index, (client, status, error)) in
        [(clients[0], "", "upstream-closed"), (clients[1], "503", "503"), (clients[2], "200", "")]
            .into_iter()
            .enumerate()
    {
        let (trace, told, _) = traceparent(&heads[index]);
        assert_eq!((hex(&client.trace_id), hex(&client.span_id)), (trace, told));
        assert_eq!(client.parent_span_id, server.span_id);
        let resent = if index == 0 { String::new() } else { index.to_string() };
        assert_attributes(
            client,
            &[
                ("http.response.status_code", status),
                ("error.type", error),
                ("http.request.resend_count", &resent),
            ],
        );
        assert_eq!(client.status.is_some(), !error.is_empty());
    }
    assert!(server.status.is_none(), "it was answered well");
}

#[test]
fn failures_are_errors_and_rejections_are_not() {
    let collector = Collector::start();
    let routes = "{path: \"/up\", proxy: one}, {get: /hello, reply: {text: hello}}";
    let weir = before(nobody(), collector.upstream.addr, ALL, routes).start();
    let mut client = weir.connect();
    assert_eq!(client.get("/up").status, 502);
    assert_eq!(client.get("/nowhere").status, 404);
    assert_eq!(client.request("BREW", "/hello", &[], "").status, 405);
    eventually("all spans", || collector.spans_so_far().len() >= 4);
    let spans = collector.spans_so_far();
    let servers = of_kind(&spans, SpanKind::Server);
    let named = |name: &str| servers.iter().find(|span| span.name == name).expect("a span");

    let failed = named("GET /up");
    assert_attributes(
        failed,
        &[("error.type", "upstream-unreachable"), ("http.response.status_code", "502")],
    );
    assert!(failed.status.as_ref().is_some_and(|status| status.code == 2));
    let tried = of_kind(&spans, SpanKind::Client);
    assert!(!tried.is_empty() && tried.iter().all(|one| one.parent_span_id == failed.span_id));
    assert_attributes(tried[0], &[("error.type", "connect"), ("http.response.status_code", "")]);
    assert!(attribute(&tried[0].attributes, "url.full").ends_with("/up"), "{tried:#?}");

    let unknown = named("GET");
    assert_attributes(
        unknown,
        &[("error.type", ""), ("weir.problem", "no-route"), ("http.route", "")],
    );
    assert!(unknown.status.is_none());
    let other = named("HTTP");
    assert_attributes(
        other,
        &[("http.request.method", "_OTHER"), ("http.request.method_original", "BREW")],
    );
}

#[test]
fn secrets_are_in_no_span() {
    let (upstream, collector) = (Upstream::responding(OK), Collector::start());
    let text = configuration(
        upstream.addr,
        collector.upstream.addr,
        &format!("{ALL}, metrics: {{every: 1s}}"),
        "{path: \"/*\", auth: keys, proxy: one}",
    );
    let text = format!(
        "{text}auth: {{keys: {{api_key: {{query: key}}}}}}\nconsumers: {{acme: {{api_keys: [\"{}\"]}}}}\n",
        key_hash("hidden-key")
    );
    let weir = crate::harness::Weir::new(&text).start();
    let headers = [("cookie", "hidden-cookie"), ("x-secret", "hidden-header")];
    let response = weir.connect().request("POST", "/x?key=hidden-key", &headers, "hidden-body");
    assert_eq!(response.status, 200);
    let spans = collector.spans(2);
    assert_attributes(of_kind(&spans, SpanKind::Server)[0], &[("weir.consumer", "acme")]);
    collector.metric("http.server.request.duration", |_| true);
    for secret in ["hidden-", "secret-of-the-collector"] {
        assert!(!collector.was_told(secret), "{secret}");
    }
    assert!(!weir.stderr().contains("secret-of-the-collector"));
}

#[test]
fn no_more_are_traced_than_may_be_whatever_clients_say() {
    let (upstream, collector) = (Upstream::responding(OK), Collector::start());
    let weir = before(
        upstream.addr,
        collector.upstream.addr,
        "traces: {share: 100%, most: 3}",
        "{path: \"/*\", proxy: one}",
    );
    let weir = weir.start();
    let mut client = weir.connect();
    let sent = 40;
    for _ in 0..sent {
        assert_eq!(client.request("GET", "/x", &[("traceparent", PARENT)], "").status, 200);
    }
    let untraced = weir.metric("weir_telemetry_untraced_total", &[]);
    assert!(untraced > 0.0 && untraced < f64::from(sent), "{untraced}");
    // Those are on their client's trace still.
    let untouched = upstream.heads().iter().filter(|head| head.contains(PARENT)).count();
    assert_eq!(untouched as f64, untraced);
    collector.spans(2 * (sent as usize - untraced as usize));
}

#[test]
fn a_reload_turns_it_on_and_off() {
    let (upstream, collector) = (Upstream::responding(OK), Collector::start());
    let routes = "{path: \"/*\", proxy: one}";
    let on = configuration(upstream.addr, collector.upstream.addr, ALL, routes);
    let off: String = on
        .lines()
        .filter(|line| !line.starts_with("telemetry"))
        .map(|line| format!("{line}\n"))
        .collect();
    let mut weir = crate::harness::Weir::new(&off).start();
    let mut client = weir.connect();
    assert_eq!(client.get("/a").status, 200);
    weir.reload(&on);
    assert_eq!(client.get("/b").status, 200);
    // What waits is not lost when settings change.
    weir.reload(&on.replace("share: 100%", "share: 0%"));
    assert_eq!(client.get("/c").status, 200);
    let spans = collector.spans(2);
    assert_attributes(of_kind(&spans, SpanKind::Server)[0], &[("url.path", "/b")]);
    weir.reload(&off);
    assert_eq!(client.get("/d").status, 200);
    assert_eq!(weir.metric("weir_telemetry_spans_exported_total", &[]), 2.0);
}

#[test]
fn two_in_a_row_that_speak_http2_are_one_trace() {
    let (upstream, collector) = (Upstream::responding(OK), Collector::start());
    let routes = "{path: \"/*\", proxy: one}";
    let behind = before(upstream.addr, collector.upstream.addr, "traces: {share: 0%}", routes);
    let behind = behind.start();
    let text = configuration(behind.listen[0], collector.upstream.addr, ALL, routes);
    let text = text.replacen("timeout: 5s,", "timeout: 5s, protocol: http2,", 1);
    let front = crate::harness::Weir::new(&text).start();
    assert_eq!(front.connect().get("/x").status, 200);

    let spans = collector.spans(4);
    let upstreams = |span: &&Span| {
        attribute(&span.attributes, "server.port") == upstream.addr.port().to_string()
    };
    let last = of_kind(&spans, SpanKind::Client).into_iter().find(upstreams).expect("a span");
    assert_eq!(hex(&last.span_id), traceparent(&upstream.heads()[0]).1);
    // From the last one up to who began it.
    let parent = |span: &Span| spans.iter().find(|other| other.span_id == span.parent_span_id);
    let second = parent(last).expect("a server span");
    let first = parent(second).expect("a client span");
    let begun = parent(first).expect("a server span");
    assert!(begun.parent_span_id.is_empty() && parent(begun).is_none());
    assert_eq!(attribute(&first.attributes, "network.protocol.version"), "2");
    assert_eq!(attribute(&second.attributes, "network.protocol.version"), "2");
    assert!(spans.iter().all(|span| span.trace_id == begun.trace_id));
}

#[test]
fn each_of_several_calls_has_a_span_of_its_own() {
    let response =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n1";
    let (upstream, collector) = (Upstream::responding(response), Collector::start());
    let routes = "{get: /, calls: {a: {upstream: one, path: /a}, b: {upstream: one, path: /b}}}";
    let weir = before(upstream.addr, collector.upstream.addr, ALL, routes).start();
    assert_eq!(weir.connect().get("/").status, 200);
    let spans = collector.spans(3);
    let server = of_kind(&spans, SpanKind::Server)[0];
    let clients = of_kind(&spans, SpanKind::Client);
    for head in upstream.heads() {
        let path = head.split(' ').nth(1).expect("a path");
        let (trace, told, _) = traceparent(&head);
        let url = format!("http://{}{path}", upstream.addr);
        let own = clients.iter().find(|span| attribute(&span.attributes, "url.full") == url);
        let own = own.unwrap_or_else(|| panic!("no span of {url}: {clients:#?}"));
        assert_eq!((hex(&own.trace_id), hex(&own.span_id)), (trace, told));
        assert_eq!(own.parent_span_id, server.span_id);
    }
}

#[test]
fn a_second_try_beside_the_first_is_told_a_span_of_its_own() {
    let slow = Upstream::start(|_, peer| while peer.some().is_some() {});
    let (quick, collector) = (Upstream::responding(OK), Collector::start());
    let weir = Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\nupstreams:\n  \
         one: {{targets: [\"http://{}\", \"http://{}\"], health: {{failures: 0}}, \
         retries: {{hedge: 20ms, budget: 100%, minimum: 1000}}}}\n  \
         collector: {{targets: [\"http://{}\"], auth: {{bearer: secret-of-the-collector}}}}\ntelemetry: {{to: collector, {ALL}}}\n\
         apis: {{all: {{base: /, routes: [{{path: \"/*\", proxy: one}}]}}}}\n",
        slow.addr, quick.addr, collector.upstream.addr
    ))
    .start();
    for _ in 0..4 {
        assert_eq!(weir.connect().get("/").status, 200);
    }
    // Every request is a span, its first try is one, and so is each second one.
    let hedged = weir.metric("weir_upstream_retries_total", &["weir_reason=\"hedge\""]) as usize;
    assert!(hedged > 0, "no request had a second try");
    let spans = collector.spans(4 + 4 + hedged);
    for head in quick.heads() {
        let (trace, told, _) = traceparent(&head);
        let own = spans.iter().find(|span| hex(&span.span_id) == told);
        let own = own.unwrap_or_else(|| panic!("no span {told}: {spans:#?}"));
        assert_eq!(hex(&own.trace_id), trace);
        assert_attributes(own, &[("http.response.status_code", "200")]);
        let port = quick.addr.port().to_string();
        assert_attributes(own, &[("server.port", &port)]);
    }
}
