//! Calls of gRPC against a server that knows what it was sent.

mod server;

use crate::data::{folder, load, run};
use crate::protocols::acceptor_of;
use server::{Mode, SCHEMA, Server};
use weir_lab::engine::{self, Control, Options, Summary};
use weir_lab::record::Tally;
use weir_lab::sample::ErrorKind;

const ONCE: &str = "load: {executor: shared-iterations, vus: 1, iterations: 1}\n";
const THREE: &str = "load: {executor: shared-iterations, vus: 1, iterations: 3}\n";
const PROTO: &str = "grpc: {proto: shop.proto}\n";

fn scenario(server: &Server, request: &str, more: &str) -> String {
    let addr = server.addr;
    format!(
        "lab: 1\ntarget: {{base: \"http://{addr}\", timeout: 2s}}\nrequests: [{{{request}}}]\n{more}"
    )
}

/// Runs requests against a server with the schema of a file.
fn called(server: &Server, request: &str, load: &str) -> Summary {
    let folder = folder(&[("shop.proto", SCHEMA)]);
    run(folder.path(), &scenario(server, request, &format!("{PROTO}{load}")))
}

fn tally(summary: &Summary, label: usize) -> &Tally {
    &summary.total.labels[label]
}

/// Kind and message of the only failed call.
fn failure(request: &str) -> (ErrorKind, String) {
    let summary = called(&Server::start(Mode::Plain), request, ONCE);
    assert_eq!((tally(&summary, 0).ok, tally(&summary, 0).failed()), (0, 1), "{request}");
    let group = &summary.total.failures.groups()[0];
    (group.kind, group.message.clone())
}

#[test]
fn a_unary_call_is_a_sample_on_one_connection() {
    let server = Server::start(Mode::Plain);
    let request = "grpc: shop.Orders/Get, message: {order_id: \"o-${user()}\", gift: \"${yes}\", items: [{name: tea}]}, \
        metadata: {x-tenant: \"t${user()}\"}, deadline: 1s, \
        checks: [{grpc_status: OK}, {status: 200}, {json: {$.orderId: o-1, $.state: NEW}}, \
        {cel: \"body.gift && body.items[0].name == 'tea' && headers['x-first'] == 'head'\"}, \
        {header: {x-last: trailer}}], extract: {id: {json: $.orderId}}";
    let more = format!("variables: {{yes: \"true\"}}\n{THREE}");
    let summary = called(&server, request, &more);
    let failed = summary.total.failures.groups();
    assert_eq!((tally(&summary, 0).ok, failed.len()), (3, 0), "{failed:?}");
    assert_eq!(summary.total.labels.len(), 1, "no samples of messages");
    assert_eq!((server.connections(), tally(&summary, 0).connects), (1, 1));
    assert!(tally(&summary, 0).sent > 0 && tally(&summary, 0).received > 0);
    for (name, value) in [
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("grpc-timeout", "1000000u"),
        ("x-tenant", "t1"),
    ] {
        assert_eq!(server.field(name), value, "{name}");
    }
    assert_eq!(server.field("content-length"), "19", "of the frame");
}

#[test]
fn values_of_a_response_are_sent_again() {
    let server = Server::start(Mode::Plain);
    let request = "grpc: shop.Orders/Get, message: {orderId: a7, cents: 12}, extract: {id: {json: $.orderId}, \
        cents: {json: $.cents}}}, {grpc: shop.Orders/Get, name: again, message: {orderId: \"b-${id}\", cents: \"${cents}\"}, \
        checks: [{json: {$.orderId: b-a7, $.cents: 12}}]";
    let summary = called(&server, request, ONCE);
    assert_eq!((tally(&summary, 0).ok, tally(&summary, 1).ok), (1, 1));
}

#[test]
fn messages_of_streams_are_samples() {
    for (request, messages) in [
        (
            "grpc: shop.Orders/Watch, checks: [{json: {'$[2].cents': 2}}, {cel: body.size() == 3}]",
            3,
        ),
        (
            "grpc: shop.Orders/Watch, message: {orderId: endless}, until: {messages: 5}, checks: [{grpc_status: OK}]",
            5,
        ),
        (
            "grpc: shop.Orders/Put, message: [{cents: 1}, {cents: 2}], repeat: 4, interval: 1ms, \
          checks: [{json: {$.cents: 8}}]",
            8,
        ),
        (
            "grpc: shop.Orders/Talk, message: [{cents: 1}, {cents: \"${random(2, 2)}\"}], repeat: 3, interval: 1ms, \
          checks: [{json: {'$[0].cents': 1, '$[5].cents': 2}}]",
            6,
        ),
    ] {
        let summary = called(&Server::start(Mode::Plain), request, THREE);
        let failed = summary.total.failures.groups();
        assert_eq!((tally(&summary, 0).ok, failed.len()), (3, 0), "{request}: {failed:?}");
        assert_eq!(tally(&summary, 1).ok, 3 * messages, "{request}");
    }
}

#[test]
fn a_stream_ends_with_the_load_or_its_time() {
    let load = "load: {executor: constant-vus, vus: 2, duration: 200ms}\n";
    let endless = "grpc: shop.Orders/Watch, message: {orderId: endless}";
    let summary = called(&Server::start(Mode::Plain), endless, load);
    assert_eq!((tally(&summary, 0).ok, tally(&summary, 0).failed()), (2, 0));
    assert!(tally(&summary, 1).ok > 2);
    let summary =
        called(&Server::start(Mode::Plain), &format!("{endless}, until: {{time: 50ms}}"), ONCE);
    assert_eq!((tally(&summary, 0).ok, tally(&summary, 0).failed()), (1, 0));
    let slow = "grpc: shop.Orders/Put, message: [{cents: 1}], repeat: 100000, interval: 20ms";
    let summary = called(&Server::start(Mode::Plain), slow, load);
    assert_eq!(
        (tally(&summary, 0).ok, tally(&summary, 0).failed()),
        (2, 0),
        "the server has replied"
    );
}

#[test]
fn a_status_is_a_kind_of_error_with_its_name() {
    let get = |id: &str| format!("grpc: shop.Orders/Get, message: {{orderId: \"{id}\"}}");
    for (request, kind, message) in [
        (get("missing"), ErrorKind::GrpcNotFound, "NOT_FOUND: no such order"),
        (get("busy"), ErrorKind::GrpcUnavailable, "UNAVAILABLE: try later"),
        (
            get("slow") + ", deadline: 100ms",
            ErrorKind::GrpcDeadlineExceeded,
            "DEADLINE_EXCEEDED: the client's deadline is over",
        ),
        (get("slow") + ", timeout: 100ms", ErrorKind::Timeout, "no complete response within 100ms"),
        (
            get("html"),
            ErrorKind::Protocol,
            "the content type of the response is \"text/html\" instead of application/grpc",
        ),
        (get("503"), ErrorKind::Http503, "Service Unavailable"),
        (get("silent"), ErrorKind::Protocol, "the response has no grpc-status"),
        (get("empty"), ErrorKind::Protocol, "the response has no message"),
        (get("two"), ErrorKind::Protocol, "the response has more than one message"),
        (get("large"), ErrorKind::Protocol, "a message has more than 16 MiB"),
        (get("cut"), ErrorKind::Protocol, "the response ended within a message"),
        (
            get("zstd") + ", checks: [{json: $.orderId}]",
            ErrorKind::Protocol,
            "a message is compressed with \"zstd\": only gzip is accepted",
        ),
        (
            get("busy") + ", checks: [{grpc_status: [OK, 5]}]",
            ErrorKind::GrpcUnavailable,
            "the status is UNAVAILABLE instead of OK, NOT_FOUND",
        ),
        (
            get("a") + ", checks: [{grpc_status: OK, not: true}]",
            ErrorKind::Check,
            "the status is OK instead of CANCELLED, UNKNOWN",
        ),
        (
            get("a") + ", checks: [{json: {$.orderId: b}}]",
            ErrorKind::Check,
            "$.orderId is a instead of b",
        ),
    ] {
        let (found, text) = failure(&request);
        assert_eq!(found, kind, "{request}: {text}");
        assert!(text.starts_with(message), "{request}: {text}");
    }
    let (kind, text) = failure(&(get("noise") + ", checks: [{json: $.orderId}]"));
    assert_eq!(kind, ErrorKind::Protocol);
    assert!(text.starts_with("a message is no shop.Order: "), "{text}");
}

#[test]
fn statuses_may_be_expected() {
    let server = Server::start(Mode::Plain);
    let missing = "grpc: shop.Orders/Get, message: {orderId: missing}";
    let summary = called(&server, &format!("{missing}, expected: [NOT_FOUND]"), ONCE);
    assert_eq!((tally(&summary, 0).expected, tally(&summary, 0).failed()), (1, 0));
    let summary =
        called(&server, &format!("{missing}, checks: [{{grpc_status: NOT_FOUND}}]"), ONCE);
    assert_eq!((tally(&summary, 0).ok, tally(&summary, 0).failed()), (1, 0));
    let gzip =
        "grpc: shop.Orders/Get, message: {orderId: gzip}, checks: [{json: {$.orderId: gzip}}]";
    assert_eq!(tally(&called(&server, gzip, ONCE), 0).ok, 1);
}

#[test]
fn an_example_shows_the_messages_in_their_json_form() {
    let request = "grpc: shop.Orders/Get, message: {orderId: \"${text(3)}\", cents: 7}, \
        metadata: {x-a: b}, checks: [{json: {$.cents: 8}}]";
    let summary = called(&Server::start(Mode::Plain), request, ONCE);
    let example = &summary.total.failures.groups()[0].example;
    assert!(example.request.starts_with("POST /shop.Orders/Get HTTP/1.1"), "{example:?}");
    assert!(example.request.contains("\"cents\":7"), "{example:?}");
    assert!(example.response.contains("\"cents\":\"7\""), "{example:?}");
    assert!(example.response.contains("grpc-status: 0"), "{example:?}");
}

#[test]
fn calls_that_a_server_refuses_are_sent_once_more() {
    for mode in [Mode::GoAway, Mode::Refusing] {
        let server = Server::start(mode);
        let summary = called(&server, "grpc: shop.Orders/Get", THREE);
        let failed = summary.total.failures.groups();
        assert_eq!((tally(&summary, 0).ok, failed.len()), (3, 0), "{mode:?}: {failed:?}");
        assert_eq!(server.connections(), 3, "{mode:?}");
        let put = "grpc: shop.Orders/Put, message: [{cents: 1}, {cents: 2}], interval: 1ms";
        let summary = called(&Server::start(mode), put, THREE);
        assert_eq!((tally(&summary, 0).ok, tally(&summary, 1).ok), (3, 6), "{mode:?}: once each");
    }
}

#[test]
fn tls_is_agreed_on_by_alpn() {
    let server = Server::start_with(Mode::Reflection("v1"), Some(acceptor_of(&[b"h2"])));
    let text = scenario(&server, "grpc: shop.Orders/Get", ONCE).replace("http://", "https://");
    let text = text.replace("timeout: 2s", "timeout: 2s, insecure: true");
    let folder = folder(&[]);
    assert_eq!(tally(&run(folder.path(), &text), 0).ok, 1);
    let folder = crate::data::folder(&[("shop.proto", SCHEMA)]);
    let strict = text.replace("insecure: true", "insecure: false") + PROTO;
    let summary = run(folder.path(), &strict);
    assert_eq!(tally(&summary, 0).errors[ErrorKind::Tls.index()], 1);
}

/// Runs a scenario without a schema of its own.
fn reflected(mode: Mode, request: &str) -> Result<Summary, String> {
    let server = Server::start(mode);
    let folder = folder(&[]);
    let scenario = load(folder.path(), &scenario(&server, request, ONCE)).unwrap();
    let program = scenario.cells[0].program.clone();
    let result = engine::run(program, &Options::default(), &Control::default(), &mut |_| {});
    result.map_err(|error| error.to_string())
}

#[test]
fn a_server_with_reflection_has_the_schema() {
    let request = "name: g, grpc: shop.Orders/Get, message: {orderId: \"${text(3)}\", items: [{count: 2}]}, \
        checks: [{json: {'$.items[0].count': 2}}]";
    for version in ["v1.", "v1alpha."] {
        let summary = reflected(Mode::Reflection(version), request).unwrap();
        assert_eq!(tally(&summary, 0).ok, 1, "{version}");
    }
    let summary = reflected(Mode::Reflection("v1."), "name: w, grpc: shop.Orders/Watch").unwrap();
    assert_eq!((tally(&summary, 0).ok, tally(&summary, 1).ok), (1, 3), "with samples of messages");
}

#[test]
fn errors_of_reflection_have_a_remedy() {
    let failed = |mode, request: &str| reflected(mode, request).unwrap_err();
    let v1 = Mode::Reflection("v1.");
    assert_eq!(
        failed(Mode::Plain, "grpc: shop.Orders/Get"),
        "request \"shop.Orders/Get\" cannot be sent: the server has no reflection: name the schema with \
         `grpc: {proto: [FILE]}`"
    );
    let message = failed(v1, "grpc: shop.Order/Get");
    assert!(
        message.ends_with("has no service `shop.Order`: did you mean `shop.Orders`?"),
        "{message}"
    );
    let message = failed(v1, "grpc: shop.Orders/Gett");
    assert!(message.ends_with("has no method `Gett`: did you mean `Get`?"), "{message}");
    let message = failed(v1, "grpc: shop.Orders/Get, message: {cent: 1}");
    assert!(
        message.ends_with("`shop.Order` has no field `cent`: did you mean `cents`?"),
        "{message}"
    );
    let nobody = "grpc: shop.Orders/Get, timeout: 100ms";
    let folder = folder(&[]);
    let text = format!(
        "lab: 1\ntarget: {{base: \"http://127.0.0.1:1\"}}\nrequests: [{{{nobody}}}]\n{ONCE}"
    );
    let program = load(folder.path(), &text).unwrap().cells[0].program.clone();
    let failed = engine::run(program, &Options::default(), &Control::default(), &mut |_| {});
    let failed = failed.unwrap_err().to_string();
    assert!(failed.contains("its schema cannot be read from 127.0.0.1:1: "), "{failed}");
}
